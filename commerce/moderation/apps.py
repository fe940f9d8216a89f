"""The moderation app, which registers its hooks with reviews."""

from importlib import import_module

from django.apps import AppConfig


class ModerationConfig(AppConfig):
    name = "commerce.moderation"
    label = "commerce_moderation"
    verbose_name = "Moderation"

    def ready(self) -> None:
        hooks = import_module("commerce.reviews.moderation_hooks").hooks
        hooks.take_down = import_module("commerce.moderation.services").accept_report
        hooks.withdraw_case = import_module("commerce.moderation.cases").withdraw_case
        hooks.load_reports = import_module("commerce.moderation.reportable_content").load_reports
