"""Route of the metrics."""

from django.urls import path

from commerce.metrics.views import MetricsView

urlpatterns = [path("metrics", MetricsView.as_view())]
