"""Routes of descriptions, under /api."""

from django.urls import include, path

from commerce.descriptions.generation_views import GenerateDescriptionView
from commerce.descriptions.views import DraftViewSet, QuotaView
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("description-drafts", DraftViewSet)

urlpatterns = [
    path("generate-descriptions", GenerateDescriptionView.as_view()),
    path("description-allowance", QuotaView.as_view()),
    *router.urls,
    path("", include("commerce.descriptions.jobs.urls")),
]
