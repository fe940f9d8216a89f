"""Routes of generation."""

from django.urls import path

from inference.generation import views

urlpatterns = [
    path("inference", views.infer),
    path("inference/stream", views.infer_stream),
    path("v1/chat/completions", views.chat),
    path("v1/completions", views.completions),
]
