"""Routes of usage."""

from django.urls import path

from inference.usage import views

urlpatterns = [path("usage", views.usage)]
