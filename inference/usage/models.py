"""The usage ledger: requests and tokens by day (UTC), user, key and model."""

from datetime import date
from typing import Self

from django.db import models
from django.db.models import F, Q, Sum
from django.db.models.functions import Coalesce

from shared.accounts.authentication import Principal
from shared.accounts.models import ApiKey, User

MAX_MODEL_ID_LENGTH = 255


class DailyUsageQuerySet(models.QuerySet["DailyUsage"]):
    def for_principal(self, principal: Principal) -> Self:
        """Return the user's rows, or the key's own rows where the key carries selected permissions only."""
        own = self.filter(user=principal.user)
        return own if principal.has_full_role else own.filter(api_key=principal.api_key)

    def between(self, first: date, last: date) -> Self:
        """Return the rows of these days, both included."""
        return self.filter(day__gte=first, day__lte=last)

    def sums(self) -> dict[str, int]:
        """Return the sum of each count."""
        sums = self.aggregate(**{name: Sum(name) for name in COUNT_FIELDS})
        return {name: value or 0 for name, value in sums.items()}


class DailyUsage(models.Model):
    """One user's usage of one model on one day, through one API key.

    `api_key` is null for sessions, and for batches that were not created with a key. `cached_tokens` are
    the prompt tokens that came from the prefix cache. Counts only grow, and only `ledger.add_to_ledger` writes them.
    """

    day = models.DateField()
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    api_key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, null=True, related_name="+", verbose_name="API key")
    model_id = models.CharField("model", max_length=MAX_MODEL_ID_LENGTH)
    requests = models.PositiveBigIntegerField()
    prompt_tokens = models.PositiveBigIntegerField()
    cached_tokens = models.PositiveBigIntegerField()
    completion_tokens = models.PositiveBigIntegerField()

    objects = DailyUsageQuerySet.as_manager()

    class Meta:
        ordering = ["-day", "user", "model_id", "pk"]
        verbose_name = "daily usage"
        verbose_name_plural = "usage"
        constraints = [
            # `ledger.add_to_ledger` repeats this expression. 0 stands for no key, since NULLs are distinct.
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


COUNT_FIELDS = tuple(
    field.name for field in DailyUsage._meta.concrete_fields if isinstance(field, models.PositiveBigIntegerField)
)
