"""Reasons of reports in a new database."""

from typing import Any

from django.apps import apps as installed_apps
from django.utils.translation import gettext_noop as _

from commerce.moderation.models import ReportReason

Severity = ReportReason.Severity
# Code, name, severity, hours until due.
DEFAULT_REASONS = (
    ("spam", _("Spam or advertising"), Severity.LOW, 72),
    ("harassment", _("Harassment"), Severity.HIGH, 24),
    ("hate", _("Hate"), Severity.CRITICAL, 4),
    ("sexual", _("Sexual content"), Severity.HIGH, 24),
    ("illegal", _("Illegal content"), Severity.CRITICAL, 4),
    ("off_topic", _("Off topic"), Severity.LOW, 72),
    ("fake", _("Fake"), Severity.MEDIUM, 48),
    ("personal_data", _("Personal data"), Severity.HIGH, 12),
    ("other", _("Something else"), Severity.LOW, 72),
)


def create_default_reasons(*, using: str = "default", apps: Any = installed_apps, **signal: Any) -> None:
    """Create the reasons after a migration, unless there are some or the migration was to a time before them."""
    try:
        model = apps.get_model("commerce_moderation", "ReportReason")
    except LookupError:
        return
    reasons = model._default_manager.using(using)
    if not reasons.exists():
        reasons.bulk_create(
            model(code=code, name=name, severity=severity, due_hours=hours, position=position)
            for position, (code, name, severity, hours) in enumerate(DEFAULT_REASONS, start=1)
        )
