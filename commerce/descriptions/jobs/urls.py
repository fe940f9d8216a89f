"""Routes of jobs and of the model server's webhook, under /api."""

from django.urls import path

from commerce.descriptions.jobs.views import JobViewSet, WebhookView
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("description-jobs", JobViewSet)

urlpatterns = [*router.urls, path("descriptions/webhook", WebhookView.as_view())]
