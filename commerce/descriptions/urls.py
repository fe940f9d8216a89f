"""Where descriptions are asked for, and what becomes of them."""

from django.urls import path

from commerce.descriptions.draft_views import AcceptDraftView, DiscardDraftView, DraftListView, DraftView
from commerce.descriptions.job_views import CancelJobView, JobListView, JobView, WebhookView
from commerce.descriptions.views import AllowanceView, GenerateDescriptionView

urlpatterns = [
    path("generate-descriptions", GenerateDescriptionView.as_view()),
    path("description-allowance", AllowanceView.as_view()),
    path("description-drafts", DraftListView.as_view()),
    path("description-drafts/<id:pk>", DraftView.as_view()),
    path("description-drafts/<id:pk>/accept", AcceptDraftView.as_view()),
    path("description-drafts/<id:pk>/discard", DiscardDraftView.as_view()),
    path("description-jobs", JobListView.as_view()),
    path("description-jobs/<id:pk>", JobView.as_view()),
    path("description-jobs/<id:pk>/cancel", CancelJobView.as_view()),
    path("descriptions/webhook", WebhookView.as_view()),
]
