"""Django's name for this app, and its triggers, which stand before anybody writes."""

from importlib import import_module

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class AnalyticsConfig(AppConfig):
    name = "commerce.analytics"
    label = "commerce_analytics"
    verbose_name = "Analytics"

    def ready(self) -> None:
        migrating = import_module("commerce.analytics.migrating")
        pre_migrate.connect(migrating.before, sender=self)
        post_migrate.connect(migrating.after, sender=self)
