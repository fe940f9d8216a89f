"""Rules that hold reviews and questions for review before they are public."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from commerce.moderation.models.text_matching import EXPRESSION_MARKS, entry_host, split_words
from commerce.shops.models import Shop

MAX_ENTRIES = 500
MAX_ENTRY_LENGTH = 100


class HoldingRule(models.Model):
    """A rule that holds content until a moderator decides, in all shops but those where it is off."""

    class Kind(models.TextChoices):
        WORDS = "words", _("Words: texts with one of the entries")
        LINKS = "links", _("Links: texts with a link, to one of the entries if there are some")
        REPETITION = "repetition", _("Repetition: the same text of one author again and again in a day")

    name = models.CharField(_("name"), max_length=80)
    kind = models.CharField(_("kind"), max_length=16, choices=Kind.choices, default=Kind.WORDS)
    entries = models.TextField(
        _("entries"),
        blank=True,
        max_length=MAX_ENTRIES * MAX_ENTRY_LENGTH,
        help_text=_("A word, a phrase or a host a line. Case, spacing and letters that look alike make no difference."),
    )
    repetitions = models.PositiveSmallIntegerField(
        _("repetitions"),
        default=3,
        validators=[MinValueValidator(2), MaxValueValidator(50)],
        help_text=_("Only of a repetition: the text of this number is held, and those after it."),
    )
    shops_off = models.ManyToManyField(
        Shop, verbose_name=_("off in these shops"), blank=True, related_name="+", db_table="commerce_holding_rule_off"
    )
    is_active = models.BooleanField(_("active"), default=True, help_text=_("Off: the rule holds nothing."))

    class Meta:
        verbose_name = _("holding rule")
        verbose_name_plural = _("holding rules")
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name

    @property
    def lines(self) -> list[str]:
        return [line for line in map(str.strip, self.entries.splitlines()) if line]

    @cached_property
    def hosts(self) -> list[str]:
        """Return the hosts of the entries of a rule of links, as they were when they were first read."""
        return [host for line in self.lines if (host := entry_host(line))]

    def clean(self) -> None:
        """Raise ValidationError for entries that could not match what their author means."""
        lines = self.lines
        if self.kind == self.Kind.WORDS and not lines:
            raise ValidationError({"entries": _("Write at least one word.")})
        if len(lines) > MAX_ENTRIES or any(len(line) > MAX_ENTRY_LENGTH for line in lines):
            message = _("Write at most %(count)d lines of at most %(length)d characters.")
            raise ValidationError({"entries": message % {"count": MAX_ENTRIES, "length": MAX_ENTRY_LENGTH}})
        for line in lines:
            if EXPRESSION_MARKS.intersection(line):
                message = _("%(line)s looks like a regular expression, which is not supported. Write words.")
                raise ValidationError({"entries": message % {"line": line}})
            if not list(split_words(line)):
                raise ValidationError({"entries": _("%(line)s has no letter or digit.") % {"line": line}})
            if self.kind == self.Kind.LINKS and not entry_host(line):
                raise ValidationError(
                    {"entries": _("%(line)s is no host. Write it like example.com.") % {"line": line}}
                )
