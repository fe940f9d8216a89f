"""Models of the settings of the shop: one row for all languages, and one for the texts of each."""

from datetime import datetime

from django.db import models
from django.db.models import Q

from commerce.attachments.models import Attachment


class Site(models.Model):
    """Settings that are the same in every language. There is one row at most."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    languages = models.JSONField(default=list, help_text="Codes of the languages that storefronts offer.")
    is_under_maintenance = models.BooleanField(default=False)
    maintenance_start = models.DateTimeField(null=True, blank=True)
    maintenance_until = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="commerce_site_is_one")]

    def __str__(self) -> str:
        return "Site"

    def is_closed(self, now: datetime) -> bool:
        """Return whether maintenance mode is on at this time."""
        has_begun = self.maintenance_start is None or self.maintenance_start <= now
        has_ended = self.maintenance_until is not None and self.maintenance_until <= now
        return self.is_under_maintenance and has_begun and not has_ended


class SiteOptions(models.Model):
    """Settings in one language: title, logo, texts for search engines, and whatever else clients store."""

    language = models.CharField(max_length=16, unique=True)
    options = models.JSONField(default=dict)
    logo = models.ForeignKey(Attachment, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "site options"

    def __str__(self) -> str:
        return self.language
