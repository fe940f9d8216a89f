"""Routes of metrics."""

from django.urls import path

from inference.metrics import views

urlpatterns = [path("metrics", views.metrics), path("metrics/custom", views.custom_metric)]
