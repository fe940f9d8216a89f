"""The analytics app, which installs its triggers after every migration."""

from importlib import import_module

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class AnalyticsConfig(AppConfig):
    name = "commerce.analytics"
    label = "commerce_analytics"
    verbose_name = "Analytics"

    def ready(self) -> None:
        signals = import_module("commerce.analytics.signals")
        pre_migrate.connect(signals.remove_triggers, sender=self)
        post_migrate.connect(signals.ensure_triggers, sender=self)
