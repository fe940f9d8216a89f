"""Routes of the metrics and of the health page."""

from django.urls import path

from inference.metrics import views
from inference.metrics.health_checks import CHECKS
from shared.serving.health_page import health_page

urlpatterns = [
    path("metrics", views.metrics),
    path("metrics/custom", views.custom_metric),
    path("admin/health/", health_page(CHECKS), name="health_page"),
]
