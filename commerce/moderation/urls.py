"""Routes of reports, decisions, notices and appeals, under /api."""

from commerce.moderation.views import (
    AppealViewSet,
    DecisionViewSet,
    NoticeViewSet,
    OwnReportViewSet,
    ReportReasonViewSet,
    ReportViewSet,
    SanctionViewSet,
)
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("abusive_reports", ReportViewSet)
router.register("decisions", DecisionViewSet)
router.register("report-reasons", ReportReasonViewSet)
router.register("my-reports", OwnReportViewSet, "own-report")
router.register("notices", NoticeViewSet)
router.register("appeals", AppealViewSet)
router.register("sanctions", SanctionViewSet)

urlpatterns = router.urls
