"""Webhooks as a Django app."""

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    """Owns the endpoints and the outbox of what is sent to them."""

    name = "inference.webhooks"
    label = "inference_webhooks"
    verbose_name = "Webhooks"
