"""Wire structs of GET /usage."""

from datetime import date
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

UsageGroupBy = Annotated[Literal["day", "model", "key"], Meta(description="What the rows of `data` sum up.")]
FirstDay = Annotated[date, Meta(description="First day of the period in UTC.", examples=["2026-10-23"])]
LastDay = Annotated[date, Meta(description="Last day of the period in UTC, included.", examples=["2026-11-21"])]
RemainingCount = Annotated[int, Meta(description="Remainder of the limit now.", examples=[593])]


class UsageQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The period and the grouping; the default period is the last 30 days."""

    first: FirstDay | UnsetType = field(default=UNSET, name="from")
    last: LastDay | UnsetType = field(default=UNSET, name="to")
    group_by: UsageGroupBy = "day"
    user: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=2**63 - 1,
                description="Id of the user whose usage is read. Other users' usage needs `manage_models`.",
                examples=[1],
            ),
        ]
        | UnsetType
    ) = UNSET


class UsageTotals(Struct, kw_only=True):
    """Sums of requests and tokens."""

    requests: Annotated[int, Meta(description="Number of requests.", examples=[210])]
    prompt_tokens: Annotated[int, Meta(description="Number of tokens of prompts.", examples=[18_900])]
    cached_tokens: Annotated[
        int, Meta(description="Number of prompt tokens that were read from the prefix cache.", examples=[12_400])
    ]
    completion_tokens: Annotated[int, Meta(description="Number of generated tokens.", examples=[25_200])]
    total_tokens: Annotated[int, Meta(description="Prompt and completion tokens together.", examples=[44_100])]

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
    """An API key without its secret."""

    id: Annotated[int, Meta(description="Id of the key.", examples=[3])]
    name: Annotated[str, Meta(description="Name of the key.", examples=["storefront"])]
    prefix: Annotated[str, Meta(description="First characters of the key.", examples=["stoa_4f2b"])]


class UsageRow(UsageTotals, kw_only=True):
    """Sums of one day, model or key."""

    day: Annotated[date, Meta(description="Day in UTC, if grouped by day.", examples=["2026-11-20"])] | UnsetType = (
        UNSET
    )
    model: (
        Annotated[str, Meta(description="Id of the model, if grouped by model.", examples=["stoa-describer"])]
        | UnsetType
    ) = UNSET
    key: Annotated[
        UsageKey | UnsetType | None,
        Meta(description="API key, if grouped by key. Null for sessions and for batches."),
    ] = UNSET


class MinuteLimit(Struct):
    """A limit per minute."""

    limit: Annotated[int, Meta(description="Limit per minute.", examples=[600])]
    remaining: RemainingCount
    reset_after: Annotated[int, Meta(description="Seconds until the whole limit is available.", examples=[41])]


class ConcurrencyLimit(Struct):
    """A limit of concurrent requests."""

    limit: Annotated[int, Meta(description="Maximum number of concurrent requests.", examples=[16])]
    remaining: RemainingCount


class MonthlyLimit(Struct):
    """A limit of the current month in UTC."""

    limit: Annotated[int, Meta(description="Limit per month.", examples=[50_000_000])]
    used: Annotated[int, Meta(description="Usage of this month.", examples=[1_200_000])]
    remaining: RemainingCount
    resets_on: Annotated[date, Meta(description="First day of the next month.", examples=["2026-12-01"])]


class ScopeLimits(Struct):
    """The limits of one key, or of all keys and sessions of a user together."""

    scope: Annotated[
        Literal["key", "user"], Meta(description="Whether the limits are of the key or of the whole user.")
    ]
    requests_per_minute: Annotated[MinuteLimit, Meta(description="Limit of requests per minute.")]
    tokens_per_minute: Annotated[MinuteLimit, Meta(description="Limit of tokens per minute.")]
    concurrent_requests: Annotated[ConcurrencyLimit, Meta(description="Limit of concurrent requests.")]
    tokens_per_month: Annotated[
        MonthlyLimit | None, Meta(description="Limit of tokens per month, or null without one.")
    ]


class UsageResponse(Struct, kw_only=True):
    """Usage of a period, and the limits now."""

    first: FirstDay = field(name="from")
    last: LastDay = field(name="to")
    group_by: UsageGroupBy
    data: Annotated[list[UsageRow], Meta(description="Sums by day, model or key.")]
    total: Annotated[UsageTotals, Meta(description="Sums of the whole period.")]
    limits: Annotated[list[ScopeLimits], Meta(description="Limits that apply to your requests.")]
