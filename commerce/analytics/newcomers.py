"""Customers who are new to some shops: those whose first order from any of them was in a period."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Sum

from commerce.analytics import chains
from commerce.analytics.chosen import Pair, among
from commerce.analytics.folding import first_orders
from commerce.analytics.models import Entry, FirstOrder

Changes = dict[Pair, list[tuple[datetime, int]]]


def count_newcomers(
    shop_ids: Sequence[int], period: tuple[datetime, datetime], generation: int, *, keeps_chains: bool
) -> int:
    """How many customers ordered from any of these shops for the first time in the period, whose end is not in it.
    Whose orders are not all folded yet is looked at by themselves."""
    if not shop_ids:
        return 0
    changed = _changed(shop_ids)
    customer_ids = among({customer_id for _, customer_id in changed})
    if len(shop_ids) == 1:
        kept_as: int | None = shop_ids[0]
    else:
        kept_as = chains.find(shop_ids, generation) if keeps_chains else None
    new = _of_new(shop_ids, kept_as, period, generation)
    settled = new.exclude(customer_id__in=customer_ids).count()
    known = FirstOrder.objects.filter(generation=generation, shop_id__in=shop_ids, customer_id__in=customer_ids)
    firsts = _firsts_of(changed, known) if changed else {}
    first, end = period
    return settled + sum(first <= at < end for at in firsts.values())


def _of_new(
    shop_ids: Sequence[int], kept_as: int | None, period: tuple[datetime, datetime], generation: int
) -> "QuerySet[Any, Any]":
    """A row for each customer who is new to these shops by what is folded. One by one where they are no chain whose
    first orders are kept."""
    folded = FirstOrder.objects.filter(generation=generation)
    within = folded.filter(first_at__gte=period[0], first_at__lt=period[1])
    if kept_as is not None:
        return within.filter(shop_id=kept_as)
    of_shops = folded.filter(shop_id__in=shop_ids)
    earlier = of_shops.filter(customer_id=OuterRef("customer_id"), first_at__lt=period[0])
    return within.filter(~Exists(earlier), shop_id__in=shop_ids).values("customer_id").distinct()


def _changed(shop_ids: Sequence[int]) -> Changes:
    """Of each pair whose orders are not all folded: when they have how many orders more or fewer."""
    rows = (
        Entry.objects.filter(shop_id__in=shop_ids)
        .exclude(customer_id=0)
        .values_list("shop_id", "customer_id", "happened_at")
        .annotate(change=Sum("orders"))
        .exclude(change=0)
        .order_by()
    )
    changed: Changes = defaultdict(list)
    for shop_id, customer_id, at, change in rows:
        changed[shop_id, customer_id].append((at, change))
    return changed


def _firsts_of(changed: Changes, known: "QuerySet[FirstOrder]") -> dict[int, datetime]:
    """When each customer of these pairs first ordered from any of the shops; those who did not any more are left
    out."""
    # Where there are fewer orders of a moment than before, the first one may be gone.
    lost = {pair for pair, changes in changed.items() if any(change < 0 for _, change in changes)}
    moments = [(row.customer_id, row.first_at) for row in known if (row.shop_id, row.customer_id) not in lost]
    moments += [(pair[1], at) for pair, changes in changed.items() if pair not in lost for at, _ in changes]
    moments += [(row.customer_id, row.first_at) for row in first_orders(lost)] if lost else []
    earliest: dict[int, datetime] = {}
    for customer_id, at in moments:
        earliest[customer_id] = min(at, earliest.get(customer_id, at))
    return earliest
