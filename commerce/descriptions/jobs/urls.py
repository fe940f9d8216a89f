"""Routes of jobs and of the model server's webhook, under /api."""

from django.urls import path

from commerce.descriptions.jobs.views import CancelJobView, JobListView, JobView, WebhookView

urlpatterns = [
    path("description-jobs", JobListView.as_view()),
    path("description-jobs/<id:pk>", JobView.as_view()),
    path("description-jobs/<id:pk>/cancel", CancelJobView.as_view()),
    path("descriptions/webhook", WebhookView.as_view()),
]
