"""GET /usage: what was used, and what may still be used."""

from datetime import date
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

UsageGroupBy = Literal["day", "model", "key"]


class UsageQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Both days are included; without them, the last 30 days. Days are UTC's."""

    first: date | UnsetType = field(default=UNSET, name="from")
    last: date | UnsetType = field(default=UNSET, name="to")
    group_by: UsageGroupBy = "day"
    user: Annotated[int, Meta(ge=1, le=2**63 - 1, description="Whose; others' need manage_models.")] | UnsetType = UNSET


class UsageTotals(Struct, kw_only=True):
    """Sums. `cached_tokens` are those of the prompt tokens that were not computed again."""

    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, *, requests: int, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> "UsageTotals":
        return cls(
            requests=requests,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            completion_tokens=completion_tokens,
            total_tokens=prompt_tokens + completion_tokens,
        )


class UsageKey(Struct):
    """A key, and what may be shown of it."""

    id: int
    name: str
    prefix: str


class UsageRow(UsageTotals, kw_only=True):
    """Sums of a day, of a model, or of a key, whichever was asked for. `key` null: sessions, and batches."""

    day: date | UnsetType = UNSET
    model: str | UnsetType = UNSET
    key: UsageKey | UnsetType | None = UNSET


class MinuteLimit(Struct):
    """A limit a minute, what is left of it, and seconds until there is more."""

    limit: int
    remaining: int
    reset_after: int


class ConcurrencyLimit(Struct):
    """How many at once, and how many more may come now."""

    limit: int
    remaining: int


class MonthlyLimit(Struct):
    """A limit of the running month of UTC, what the ledger has of it, what is left, and when the next month begins."""

    limit: int
    used: int
    remaining: int
    resets_on: date


class ScopeLimits(Struct):
    """What one key, or all keys and sessions of a user together, may do. `tokens_per_month` null: any number."""

    scope: Literal["key", "user"]
    requests_per_minute: MinuteLimit
    tokens_per_minute: MinuteLimit
    concurrent_requests: ConcurrencyLimit
    tokens_per_month: MonthlyLimit | None


class UsageResponse(Struct, kw_only=True):
    """What was used from one day to another, and what is left of the limits just now."""

    first: date = field(name="from")
    last: date = field(name="to")
    group_by: UsageGroupBy
    data: list[UsageRow]
    total: UsageTotals
    limits: list[ScopeLimits]
