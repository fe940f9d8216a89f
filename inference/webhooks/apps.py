"""The Django app of the model server's webhooks: `shared.webhooks` with tables of its own."""

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    """App of webhook endpoints and the outbox of deliveries to them."""

    name = "shared.webhooks"
    label = "inference_webhooks"
    verbose_name = "Webhooks"
