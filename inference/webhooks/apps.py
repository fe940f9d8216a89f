"""The Django app of webhooks."""

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    """App of webhook endpoints and the outbox of deliveries to them."""

    name = "inference.webhooks"
    label = "inference_webhooks"
    verbose_name = "Webhooks"
