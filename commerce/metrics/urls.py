"""The route of metrics."""

from django.urls import path

from commerce.metrics import views

urlpatterns = [path("metrics", views.MetricsView.as_view())]
