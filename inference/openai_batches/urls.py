"""URL routes of OpenAI's batches."""

from django.urls import path

from inference.access.operations import by_method
from inference.openai_batches import views

urlpatterns = [
    path("v1/batches", by_method(GET=views.list_batches, POST=views.create_batch)),
    path("v1/batches/<str:batch_id>", views.read_batch),
    path("v1/batches/<str:batch_id>/cancel", views.cancel_batch),
]
