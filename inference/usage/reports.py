"""Reads of the ledger, summed up as they are asked for."""

from typing import Any

from django.db.models import F, Sum
from msgspec import structs

from inference.protocol.usage import UsageKey, UsageRow, UsageTotal
from inference.usage.models import COUNTED, DailyUsageQuerySet
from shared.accounts.authentication import KEY_MARK

# What each grouping tells of a row.
GROUPS: dict[str, tuple[str, ...]] = {
    "day": ("day",),
    "model": ("model_id",),
    "key": ("api_key", "api_key__name", "api_key__key_id"),
}


def report(rows: DailyUsageQuerySet, group_by: str) -> tuple[list[UsageRow], UsageTotal]:
    """One row a day, model or key, in that order, and the sum of all."""
    names = GROUPS[group_by]
    groups = (
        rows.order_by(F(names[0]).asc(nulls_first=True))
        .values(*names)
        .annotate(**{f"sum_of_{name}": Sum(name) for name in COUNTED})
    )
    return [_row(group) for group in groups], UsageTotal.of(**rows.sums())


def _row(group: dict[str, Any]) -> UsageRow:
    sums = UsageTotal.of(**{name: group[f"sum_of_{name}"] for name in COUNTED})
    named: dict[str, Any] = {}
    if "day" in group:
        named["day"] = group["day"]
    elif "model_id" in group:
        named["model"] = group["model_id"]
    else:
        named["key"] = _key(group) if group["api_key"] else None
    return UsageRow(**structs.asdict(sums), **named)


def _key(group: dict[str, Any]) -> UsageKey:
    return UsageKey(group["api_key"], group["api_key__name"], f"{KEY_MARK}{group['api_key__key_id']}_")
