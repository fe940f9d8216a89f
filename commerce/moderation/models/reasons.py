"""Reasons that reporters choose from, and templates of the texts that moderators send."""

from datetime import timedelta

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, validate_slug
from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from commerce.moderation.models.message_placeholders import unknown_placeholders

DEFAULT_DUE_TIME = timedelta(days=3)  # of reports without a reason
MAX_TEMPLATE_LENGTH = 1_500


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
