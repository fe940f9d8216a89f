"""URL routes of webhooks."""

from django.urls import path

from inference.webhooks import views

urlpatterns = [
    path("webhooks", views.endpoints),
    path("webhooks/<str:webhook_id>", views.endpoint),
    path("webhooks/<str:webhook_id>/rotate", views.rotate_secret),
    path("webhooks/<str:webhook_id>/deliveries", views.list_deliveries),
    path("webhooks/<str:webhook_id>/deliveries/<str:delivery_id>", views.read_delivery),
    path("webhooks/<str:webhook_id>/deliveries/<str:delivery_id>/redeliver", views.redeliver),
]
