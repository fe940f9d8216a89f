"""Routes of tokens."""

from django.urls import path

from inference.tokens import views

urlpatterns = [
    path("tokenize", views.tokenize),
    path("detokenize", views.detokenize),
]
