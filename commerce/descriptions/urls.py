"""Routes of descriptions, under /api."""

from django.urls import path

from commerce.descriptions.generation_views import GenerateDescriptionView
from commerce.descriptions.jobs.views import JobViewSet, WebhookView
from commerce.descriptions.views import DraftViewSet, QuotaView
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("description-drafts", DraftViewSet)
router.register("description-jobs", JobViewSet)

urlpatterns = [
    path("generate-descriptions", GenerateDescriptionView.as_view()),
    path("description-allowance", QuotaView.as_view()),
    *router.urls,
    path("descriptions/webhook", WebhookView.as_view()),
]
