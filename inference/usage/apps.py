"""The ledger as a Django app."""

from django.apps import AppConfig


class UsageConfig(AppConfig):
    """Owns what was used, by day; what is used just now is counted in Redis."""

    name = "inference.usage"
    label = "inference_usage"
    verbose_name = "Usage"
