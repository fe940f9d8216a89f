"""The Django app of batches."""

from django.apps import AppConfig


class BatchesConfig(AppConfig):
    """App of batches, their requests and results, and the leases of workers."""

    name = "inference.batches"
    label = "inference_batches"
    verbose_name = "Batches"
