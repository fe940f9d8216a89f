"""Usage reports: ledger rows grouped by day, model or key."""

from typing import Any

from django.db.models import F, Sum
from msgspec import structs

from inference.protocol.native.usage import UsageGroupBy, UsageKey, UsageRow, UsageTotals
from inference.usage.models import COUNT_FIELDS, DailyUsageQuerySet
from shared.accounts.authentication import API_KEY_PREFIX

# The columns of each grouping; the first one orders the rows.
GROUP_COLUMNS: dict[UsageGroupBy, tuple[str, ...]] = {
    "day": ("day",),
    "model": ("model_id",),
    "key": ("api_key", "api_key__name", "api_key__key_id"),
}


def build_report(rows: DailyUsageQuerySet, group_by: UsageGroupBy) -> tuple[list[UsageRow], UsageTotals]:
    """Return one row per day, model or key, ordered by it, and the total of all rows."""
    columns = GROUP_COLUMNS[group_by]
    groups = (
        rows.order_by(F(columns[0]).asc(nulls_first=True))
        .values(*columns)
        .annotate(**{f"sum_of_{name}": Sum(name) for name in COUNT_FIELDS})
    )
    return [_report_row(group) for group in groups], UsageTotals.of(**rows.sums())


def _report_row(group: dict[str, Any]) -> UsageRow:
    total = UsageTotals.of(**{name: group[f"sum_of_{name}"] for name in COUNT_FIELDS})
    label: dict[str, Any] = {}
    if "day" in group:
        label["day"] = group["day"]
    elif "model_id" in group:
        label["model"] = group["model_id"]
    else:
        label["key"] = _usage_key(group) if group["api_key"] else None
    return UsageRow(**structs.asdict(total), **label)


def _usage_key(group: dict[str, Any]) -> UsageKey:
    return UsageKey(group["api_key"], group["api_key__name"], f"{API_KEY_PREFIX}{group['api_key__key_id']}_")
