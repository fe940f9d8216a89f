"""Routes of embeddings."""

from django.urls import path

from inference.embeddings import views

urlpatterns = [
    path("embeddings", views.embeddings),
    path("v1/embeddings", views.openai_embeddings),
]
