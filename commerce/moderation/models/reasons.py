"""Reasons that reporters choose from, and templates of the texts that moderators send, with their placeholders."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.apps import apps as installed_apps
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, validate_slug
from django.db import models
from django.utils.translation import gettext, gettext_noop
from django.utils.translation import gettext_lazy as _

DEFAULT_DUE_TIME = timedelta(days=3)  # of reports without a reason
MAX_TEMPLATE_LENGTH = 1_500
PLACEHOLDERS = frozenset({"product", "shop", "appeal_days"})
PLACEHOLDER = re.compile(r"\{([^{}\s]{1,40})\}")


class ReportReason(models.Model):
    """A reason of reports, with its severity and the time in which a moderator should decide."""

    class Severity(models.IntegerChoices):
        LOW = 1, _("Low")
        MEDIUM = 2, _("Medium")
        HIGH = 3, _("High")
        CRITICAL = 4, _("Critical")

    code = models.CharField(
        _("code"), max_length=32, unique=True, validators=[validate_slug], help_text=_("What clients of the API send.")
    )
    name = models.CharField(_("name"), max_length=80)
    severity = models.PositiveSmallIntegerField(_("severity"), choices=Severity.choices, default=Severity.MEDIUM)
    due_hours = models.PositiveSmallIntegerField(
        _("hours until due"), default=72, validators=[MinValueValidator(1), MaxValueValidator(8760)]
    )
    position = models.PositiveSmallIntegerField(_("position"), default=0)
    is_active = models.BooleanField(_("active"), default=True, help_text=_("Off: no new report can have it."))

    class Meta:
        verbose_name = _("report reason")
        verbose_name_plural = _("report reasons")
        ordering = ["position", "id"]

    def __str__(self) -> str:
        return gettext(self.name)  # the catalog has the reasons of a new database

    @property
    def due_time(self) -> timedelta:
        return timedelta(hours=self.due_hours)


class DecisionTemplate(models.Model):
    """A text for authors and reporters, offered for a reason and a language."""

    name = models.CharField(_("name"), max_length=80)
    reason = models.ForeignKey(
        ReportReason,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="templates",
        verbose_name=_("report reason"),
        help_text=_("Empty: offered for every reason."),
    )
    language = models.CharField(_("language"), max_length=16, default="en")
    text = models.TextField(
        _("text"),
        max_length=MAX_TEMPLATE_LENGTH,
        help_text=_("May contain {product}, {shop} and {appeal_days}, which are filled in for each item."),
    )
    is_active = models.BooleanField(_("active"), default=True, help_text=_("Off: moderators are not offered it."))

    class Meta:
        verbose_name = _("decision template")
        verbose_name_plural = _("decision templates")
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Raise ValidationError for a placeholder that nothing would fill."""
        if unknown := unknown_placeholders(self.text):
            message = _("Nothing fills %(unknown)s. Use {product}, {shop} or {appeal_days}.")
            raise ValidationError({"text": message % {"unknown": ", ".join(unknown)}})


def unknown_placeholders(text: str) -> list[str]:
    """Return the placeholders of a text that nothing fills, with their braces."""
    return list(dict.fromkeys(f"{{{name}}}" for name in PLACEHOLDER.findall(text) if name not in PLACEHOLDERS))


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Return the text with the values of its placeholders. Placeholders inside a value stay as they are."""
    return PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


# Code, name, severity, hours until due.
DEFAULT_REASONS = (
    ("spam", gettext_noop("Spam or advertising"), ReportReason.Severity.LOW, 72),
    ("harassment", gettext_noop("Harassment"), ReportReason.Severity.HIGH, 24),
    ("hate", gettext_noop("Hate"), ReportReason.Severity.CRITICAL, 4),
    ("sexual", gettext_noop("Sexual content"), ReportReason.Severity.HIGH, 24),
    ("illegal", gettext_noop("Illegal content"), ReportReason.Severity.CRITICAL, 4),
    ("off_topic", gettext_noop("Off topic"), ReportReason.Severity.LOW, 72),
    ("fake", gettext_noop("Fake"), ReportReason.Severity.MEDIUM, 48),
    ("personal_data", gettext_noop("Personal data"), ReportReason.Severity.HIGH, 12),
    ("other", gettext_noop("Something else"), ReportReason.Severity.LOW, 72),
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
