"""Routes of embeddings."""

from django.urls import path

from inference.embeddings.views import embeddings

urlpatterns = [path("embeddings", embeddings)]
