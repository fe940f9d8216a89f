"""App configuration of usage."""

from django.apps import AppConfig


class UsageConfig(AppConfig):
    """The app of the usage ledger, which has one row a day. Current counts are in Redis."""

    name = "inference.usage"
    label = "inference_usage"
    verbose_name = "Usage"
