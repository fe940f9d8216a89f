"""App configuration of the audit log, which creates and checks its triggers."""

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db.models.signals import post_migrate

from shared.audit.triggers import check_triggers, create_triggers


class AuditConfig(AppConfig):
    name = "shared.audit"
    label = "audit"
    verbose_name = "Audit"

    def ready(self) -> None:
        post_migrate.connect(create_triggers, sender=self)
        register(check_triggers, Tags.database)
