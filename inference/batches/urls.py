"""URL routes of batches."""

from django.urls import path

from inference.access.operations import by_method
from inference.batches import views

urlpatterns = [
    path("batch", by_method(GET=views.list_batches, POST=views.submit)),
    path("batch/<str:batch_id>", views.status),
    path("batch/<str:batch_id>/results", views.results),
    path("batch/<str:batch_id>/cancel", views.cancel),
]
