"""The ledger: what was used, by day, user, key and model. Days are UTC's."""

from datetime import date
from typing import Self

from django.db import models
from django.db.models import F, Q, Sum
from django.db.models.functions import Coalesce

from shared.accounts.authentication import Principal
from shared.accounts.models import ApiKey, User

LONGEST_MODEL_ID = 255
COUNTED = ("requests", "prompt_tokens", "cached_tokens", "completion_tokens")


class DailyUsageQuerySet(models.QuerySet["DailyUsage"]):
    def for_principal(self, principal: Principal) -> Self:
        """Their own. A key with a few named permissions sees what it used itself, and no more."""
        own = self.filter(user=principal.user)
        return own if principal.has_whole_role else own.filter(api_key=principal.api_key)

    def between(self, first: date, last: date) -> Self:
        """Both days included."""
        return self.filter(day__gte=first, day__lte=last)

    def sums(self) -> dict[str, int]:
        """Of all that was counted."""
        return {name: value or 0 for name, value in self.aggregate(**{name: Sum(name) for name in COUNTED}).items()}


class DailyUsage(models.Model):
    """What one user took of one model on one day, by one key or, without one, by sessions and batches.

    Of the prompt tokens, `cached_tokens` were not computed again. Rows only grow, and only `ledger.write` writes them.
    """

    day = models.DateField()
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    api_key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, null=True, related_name="+", verbose_name="API key")
    model_id = models.CharField("model", max_length=LONGEST_MODEL_ID)
    requests = models.PositiveBigIntegerField()
    prompt_tokens = models.PositiveBigIntegerField()
    cached_tokens = models.PositiveBigIntegerField()
    completion_tokens = models.PositiveBigIntegerField()

    objects = DailyUsageQuerySet.as_manager()

    class Meta:
        ordering = ["-day", "user", "model_id", "pk"]
        verbose_name = "usage of a day"
        verbose_name_plural = "usage"
        constraints = [
            # `ledger.write` names this very expression: no key is a key of its own.
            models.UniqueConstraint(
                F("day"), F("user"), Coalesce("api_key", 0), F("model_id"), name="inference_usage_one_row_a_day"
            ),
            models.CheckConstraint(
                condition=Q(cached_tokens__lte=F("prompt_tokens")), name="inference_usage_cached_is_part"
            ),
        ]
        indexes = [models.Index(fields=["user", "day"], name="inference_usage_of_user")]

    def __str__(self) -> str:
        return f"{self.model_id} on {self.day}"

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens
