"""Batches as a Django app."""

from django.apps import AppConfig


class BatchesConfig(AppConfig):
    """Owns batches, their requests and results, and the leases under which workers do them."""

    name = "inference.batches"
    label = "inference_batches"
    verbose_name = "Batches"
