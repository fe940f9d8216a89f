"""Monthly quotas: the tokens that a user or a key may use in a calendar month (UTC), compared with the ledger."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from django.conf import settings

from inference.usage.models import DailyUsage
from shared.accounts.models import ApiKey, User
from shared.api.errors import ApiError

# OpenAI's clients would otherwise retry twice within seconds.
NO_RETRY_HEADERS = {"X-Should-Retry": "false"}


@dataclass(frozen=True)
class MonthlyQuota:
    """The tokens that one key or user may use in the month that starts on `starts_on`."""

    kind: Literal["key", "user"]
    owner_id: int
    max_tokens: int
    starts_on: date

    @property
    def name(self) -> str:
        """The quota's name in Redis."""
        return f"{self.kind}:{self.owner_id}:{self.starts_on:%Y-%m}"

    @property
    def resets_at(self) -> datetime:
        """The start of the next month."""
        following = (self.starts_on + timedelta(days=31)).replace(day=1)
        return datetime(following.year, following.month, 1, tzinfo=UTC)

    def read_used_tokens(self) -> int:
        """Return the tokens that the ledger has for this owner and month."""
        owner = {"user": self.owner_id} if self.kind == "user" else {"api_key": self.owner_id}
        last_day = self.resets_at.date() - timedelta(days=1)
        sums = DailyUsage.objects.filter(**owner).between(self.starts_on, last_day).sums()
        return sums["prompt_tokens"] + sums["completion_tokens"]


def quotas_for(user: User, api_key: ApiKey | None, *, now: datetime) -> tuple[MonthlyQuota, ...]:
    """Return the quotas that a request counts against, without those that are unlimited.

    All keys and sessions of a user count against the user's quota, keys with their own per-minute limits included.
    """
    starts_on = now.astimezone(UTC).date().replace(day=1)
    return tuple(
        MonthlyQuota(kind, owner_id, max_tokens, starts_on)
        for kind, owner_id, max_tokens in _limits(user, api_key)
        if max_tokens is not None
    )


def check_quotas(*, user: User, api_key: ApiKey | None, now: datetime) -> None:
    """Raise ApiError 429 if a quota is used up. For work that is accepted now and runs later, as a batch."""
    for quota in quotas_for(user, api_key, now=now):
        if quota.read_used_tokens() >= quota.max_tokens:
            headers = {"Retry-After": str(seconds_until_reset(quota, now))} | NO_RETRY_HEADERS
            raise ApiError(429, used_up_message(quota), headers=headers)


def find_used_up_message(*, user_id: int, api_key_id: int | None, now: datetime, tokens: int = 1) -> str:
    """Return the error message for the first quota that does not have so many tokens left, or an empty string."""
    user = User.objects.get(pk=user_id)
    api_key = None if api_key_id is None else ApiKey.objects.get(pk=api_key_id)
    quotas = quotas_for(user, api_key, now=now)
    return next(
        (used_up_message(quota) for quota in quotas if quota.read_used_tokens() + tokens > quota.max_tokens), ""
    )


def used_up_message(quota: MonthlyQuota) -> str:
    return (
        f"{owner_name(quota.kind)} has used its quota of {quota.max_tokens} tokens per month. "
        f"It resets on {quota.resets_at:%Y-%m-%d} (UTC); the server's administrator can raise it."
    )


def owner_name(kind: Literal["key", "user"]) -> str:
    """Return the subject of an error message about a key's or a user's limit."""
    return "This key" if kind == "key" else "Your user"


def seconds_until_reset(quota: MonthlyQuota, now: datetime) -> int:
    return max(1, round((quota.resets_at - now).total_seconds()))


def _limits(user: User, api_key: ApiKey | None) -> Iterator[tuple[Literal["key", "user"], int, int | None]]:
    if api_key is not None:
        yield "key", api_key.pk, _limit_or_default(api_key.monthly_token_limit, settings.KEY_MONTHLY_TOKEN_LIMIT)
    yield "user", user.pk, _limit_or_default(user.monthly_token_limit, settings.USER_MONTHLY_TOKEN_LIMIT)


def _limit_or_default(limit: int | None, default: int) -> int | None:
    """Return the limit; a default of 0 means no limit, but an explicit 0 allows nothing."""
    return limit if limit is not None else default or None
