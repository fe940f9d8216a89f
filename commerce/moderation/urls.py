"""Routes of reports, decisions, notices and appeals, under /api."""

from django.urls import path

from commerce.moderation.views import (
    AcceptView,
    AppealListView,
    AppealView,
    NoticeListView,
    NoticeView,
    OwnReportListView,
    RejectView,
    ReportListView,
    ReportView,
)

urlpatterns = [
    path("abusive_reports", ReportListView.as_view()),
    path("abusive_reports/<id:pk>", ReportView.as_view()),
    path("abusive_reports/accept", AcceptView.as_view()),
    path("abusive_reports/reject", RejectView.as_view()),
    path("my-reports", OwnReportListView.as_view()),
    path("notices", NoticeListView.as_view()),
    path("notices/<id:pk>", NoticeView.as_view()),
    path("appeals", AppealListView.as_view()),
    path("appeals/<id:pk>", AppealView.as_view()),
]
