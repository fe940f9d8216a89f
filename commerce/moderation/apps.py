"""The moderation app, which registers its hooks with reviews."""

from functools import partial
from importlib import import_module

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ModerationConfig(AppConfig):
    name = "commerce.moderation"
    label = "commerce_moderation"
    verbose_name = "Moderation"

    def ready(self) -> None:
        create = import_module("commerce.moderation.models.reasons").create_default_reasons
        post_migrate.connect(create, sender=self, dispatch_uid="moderation_default_reasons")
        hooks = import_module("commerce.reviews.moderation_hooks").hooks
        hooks.take_down = partial(import_module("commerce.moderation.services").decide, "accepted")
        hooks.withdraw_case = import_module("commerce.moderation.cases").withdraw_case
        hooks.check_may_write = import_module("commerce.moderation.sanctions").check_may_write
        holding = import_module("commerce.moderation.queue.holding")
        hooks.find_hold, hooks.hold = holding.find_holding_rule, holding.hold_content
        hooks.load_reports = import_module("commerce.moderation.reportable_content").load_reports
