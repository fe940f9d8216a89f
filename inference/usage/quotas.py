"""Tokens that a user, or a key, may use in a month of UTC. What they have used is what the ledger says."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from django.conf import settings

from inference.usage.models import DailyUsage
from shared.accounts.models import ApiKey, User
from shared.api.errors import ApiError

# OpenAI's clients would ask twice more within seconds.
NOT_AGAIN = {"X-Should-Retry": "false"}


@dataclass(frozen=True)
class Quota:
    """What one of them may use in the month that begins on this day."""

    kind: Literal["key", "user"]
    owner_id: int
    tokens: int
    begins: date

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.owner_id}:{self.begins:%Y-%m}"

    @property
    def ends_at(self) -> datetime:
        """When the next month begins."""
        following = (self.begins + timedelta(days=31)).replace(day=1)
        return datetime(following.year, following.month, 1, tzinfo=UTC)

    def used(self) -> int:
        """From the ledger."""
        owner = {"user": self.owner_id} if self.kind == "user" else {"api_key": self.owner_id}
        last = self.ends_at.date() - timedelta(days=1)
        sums = DailyUsage.objects.filter(**owner).between(self.begins, last).sums()
        return sums["prompt_tokens"] + sums["completion_tokens"]


def quotas_of(user: User, api_key: ApiKey | None, *, now: datetime) -> tuple[Quota, ...]:
    """Those that count for a request; none for whom there is no limit a month. All that a user's keys and sessions use
    counts for the user, with keys that have limits of a minute of their own."""
    begins = now.astimezone(UTC).date().replace(day=1)
    return tuple(
        Quota(kind, owner_id, tokens, begins) for kind, owner_id, tokens in _limits(user, api_key) if tokens is not None
    )


def require_left(*, user: User, api_key: ApiKey | None, now: datetime) -> None:
    """Raises ApiError 429 where the month of the user or the key is used up: for work that is accepted now and done
    later."""
    for quota in quotas_of(user, api_key, now=now):
        if quota.used() >= quota.tokens:
            raise ApiError(429, used_up(quota), headers={"Retry-After": str(seconds_left(quota, now))} | NOT_AGAIN)


def words_if_used_up(*, user_id: int, api_key_id: int | None, now: datetime) -> str:
    """What to say where the month of the user or the key is used up, else nothing."""
    user = User.objects.get(pk=user_id)
    api_key = None if api_key_id is None else ApiKey.objects.get(pk=api_key_id)
    return next((used_up(quota) for quota in quotas_of(user, api_key, now=now) if quota.used() >= quota.tokens), "")


def used_up(quota: Quota) -> str:
    whose = "this key" if quota.kind == "key" else "your user"
    return (
        f"The {quota.tokens} tokens a month of {whose} are used up. "
        f"There are new ones on {quota.ends_at:%Y-%m-%d} (UTC); who runs this server can give more."
    )


def seconds_left(quota: Quota, now: datetime) -> int:
    """Until the next month."""
    return max(1, round((quota.ends_at - now).total_seconds()))


def _limits(user: User, api_key: ApiKey | None) -> Iterator[tuple[Literal["key", "user"], int, int | None]]:
    if api_key is not None:
        yield "key", api_key.pk, _own_or(api_key.monthly_token_limit, settings.KEY_MONTHLY_TOKEN_LIMIT)
    yield "user", user.pk, _own_or(user.monthly_token_limit, settings.USER_MONTHLY_TOKEN_LIMIT)


def _own_or(own: int | None, default: int) -> int | None:
    """A default of 0 is none."""
    return own if own is not None else default or None
