"""Count new customers of shops: those who joined, and first ordered from any of the shops, in a period.

So the new customers of some shops are never more than those of the platform, who are all that joined.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Sum

from commerce.analytics.aggregation import first_orders
from commerce.analytics.aggregation.id_lists import CustomerOfShop, in_ids
from commerce.analytics.aggregation.owner_groups import find_group
from commerce.analytics.models import FirstOrder, LedgerEntry
from shared.accounts.models import User
from shared.accounts.roles import Role

# The times of orders that wait for aggregation, each with the number gained (or lost, below 0).
WaitingOrders = dict[CustomerOfShop, list[tuple[datetime, int]]]


def count_new_customers(
    shop_ids: Sequence[int], period: tuple[datetime, datetime], generation: int, *, has_owner_groups: bool
) -> int:
    """Return how many customers joined and first ordered from any of these shops in the period, whose end is excluded.

    Customers with ledger entries that wait for aggregation are looked up one by one.
    """
    if not shop_ids:
        return 0
    waiting = _waiting_orders(shop_ids)
    customer_ids = in_ids({customer_id for _, customer_id in waiting})
    if len(shop_ids) == 1:
        group_id: int | None = shop_ids[0]
    else:
        group_id = find_group(shop_ids, generation) if has_owner_groups else None
    new = _new_in_rollups(shop_ids, group_id, period, generation)
    joined = User.objects.filter(role=Role.CUSTOMER, created_at__gte=period[0], created_at__lt=period[1])
    new = new.filter(Exists(joined.filter(pk=OuterRef("customer_id"))))
    settled = new.exclude(customer_id__in=customer_ids).count()
    known = FirstOrder.objects.filter(generation=generation, shop_id__in=shop_ids, customer_id__in=customer_ids)
    firsts = _first_order_times(waiting, known) if waiting else {}
    first_within = [customer_id for customer_id, at in firsts.items() if period[0] <= at < period[1]]
    return settled + (joined.filter(pk__in=in_ids(first_within)).count() if first_within else 0)


def _new_in_rollups(
    shop_ids: Sequence[int], group_id: int | None, period: tuple[datetime, datetime], generation: int
) -> "QuerySet[Any, Any]":
    """Return a row for each new customer by the aggregated first orders.

    `group_id` is the `shop_id` under which first orders of all these shops are kept; without it, each customer's
    earlier orders are looked up.
    """
    all_firsts = FirstOrder.objects.filter(generation=generation)
    within = all_firsts.filter(first_at__gte=period[0], first_at__lt=period[1])
    if group_id is not None:
        return within.filter(shop_id=group_id)
    of_shops = all_firsts.filter(shop_id__in=shop_ids)
    earlier = of_shops.filter(customer_id=OuterRef("customer_id"), first_at__lt=period[0])
    return within.filter(~Exists(earlier), shop_id__in=shop_ids).values("customer_id").distinct()


def _waiting_orders(shop_ids: Sequence[int]) -> WaitingOrders:
    rows = (
        LedgerEntry.objects.filter(shop_id__in=shop_ids)
        .exclude(customer_id=0)
        .values_list("shop_id", "customer_id", "happened_at")
        .annotate(change=Sum("orders"))
        .exclude(change=0)
        .order_by()
    )
    waiting: WaitingOrders = defaultdict(list)
    for shop_id, customer_id, at, change in rows:
        waiting[shop_id, customer_id].append((at, change))
    return waiting


def _first_order_times(waiting: WaitingOrders, known: "QuerySet[FirstOrder]") -> dict[int, datetime]:
    """Return the first order of each of these customers from any of the shops; customers without orders are absent."""
    # Where orders were lost, the known first one may be among them: these pairs are read from the orders.
    lost = {pair for pair, changes in waiting.items() if any(change < 0 for _, change in changes)}
    times = [(row.customer_id, row.first_at) for row in known if (row.shop_id, row.customer_id) not in lost]
    times += [(pair[1], at) for pair, changes in waiting.items() if pair not in lost for at, _ in changes]
    times += [(row.customer_id, row.first_at) for row in first_orders.read_from_orders(lost)] if lost else []
    earliest: dict[int, datetime] = {}
    for customer_id, at in times:
        earliest[customer_id] = min(at, earliest.get(customer_id, at))
    return earliest
