"""Routes of descriptions, under /api."""

from django.urls import include, path

from commerce.descriptions.generation_views import GenerateDescriptionView
from commerce.descriptions.views import AcceptDraftView, DiscardDraftView, DraftListView, DraftView, QuotaView

urlpatterns = [
    path("generate-descriptions", GenerateDescriptionView.as_view()),
    path("description-allowance", QuotaView.as_view()),
    path("description-drafts", DraftListView.as_view()),
    path("description-drafts/<id:pk>", DraftView.as_view()),
    path("description-drafts/<id:pk>/accept", AcceptDraftView.as_view()),
    path("description-drafts/<id:pk>/discard", DiscardDraftView.as_view()),
    path("", include("commerce.descriptions.jobs.urls")),
]
