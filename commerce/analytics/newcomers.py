"""Customers who are new to some shops: those whose first order from any of them was in a period."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet, Sum

from commerce.analytics.folding import first_order_at
from commerce.analytics.models import Entry, FirstOrder

Pair = tuple[int, int]  # of a shop and a customer
Changes = dict[Pair, list[tuple[datetime, int]]]


def count_newcomers(shop_ids: Sequence[int], period: tuple[datetime, datetime], generation: int) -> int:
    """How many customers ordered from any of these shops for the first time in the period, whose end is not in it.
    Whose orders are not all folded yet is looked at one by one."""
    first, end = period
    changed = _changed(shop_ids)
    customer_ids = {customer_id for _, customer_id in changed}
    known = FirstOrder.objects.filter(generation=generation, shop_id__in=shop_ids)
    new = known.filter(first_at__gte=first, first_at__lt=end).exclude(customer_id__in=customer_ids)
    if len(shop_ids) > 1:
        earlier = known.filter(customer_id=OuterRef("customer_id"), first_at__lt=first)
        new = new.filter(~Exists(earlier))
    settled = new.values("customer_id").distinct().count() if len(shop_ids) > 1 else new.count()
    firsts = _firsts_of(changed, known.filter(customer_id__in=customer_ids)) if customer_ids else {}
    return settled + sum(first <= at < end for at in firsts.values())


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
    firsts: dict[Pair, datetime | None] = {
        (row.shop_id, row.customer_id): row.first_at for row in known if (row.shop_id, row.customer_id) not in changed
    }
    folded = {(row.shop_id, row.customer_id): row.first_at for row in known}
    for pair, changes in changed.items():
        if any(change < 0 for _, change in changes):  # the first one may be gone
            firsts[pair] = first_order_at(*pair)
        else:
            firsts[pair] = min([at for at, _ in changes] + ([folded[pair]] if pair in folded else []))
    earliest: dict[int, datetime] = {}
    for (_, customer_id), at in firsts.items():
        if at is not None:
            earliest[customer_id] = min(at, earliest.get(customer_id, at))
    return earliest
