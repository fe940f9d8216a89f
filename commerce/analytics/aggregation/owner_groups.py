"""Owner groups: all shops of an owner who has several.

A group's new customers are counted as one shop's are, from first orders of its own. Aggregation keeps these up to date;
they are computed anew when the owner's shops change.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import connection
from django.db.models import Count

from commerce.analytics.aggregation.id_lists import CustomerOfShop, select_pairs
from commerce.analytics.aggregation.lock import run_exclusively
from commerce.analytics.models import FirstOrder, OwnerGroupShop, RollupState
from commerce.shops.models import Shop

OWNER_GROUP_SHOPS, FIRST_ORDERS = OwnerGroupShop._meta.db_table, FirstOrder._meta.db_table
# The first orders of owner groups, from those of their shops; `clause` is a JOIN or WHERE.
GROUP_FIRST_ORDERS = f"""
    SELECT f.generation, -g.owner_id AS shop_id, f.customer_id, MIN(f.first_at) AS first_at
    FROM {OWNER_GROUP_SHOPS} g JOIN {FIRST_ORDERS} f ON f.generation = g.generation AND f.shop_id = g.shop_id
    {{clause}} GROUP BY f.generation, g.owner_id, f.customer_id
    """  # noqa: S608  # nosec B608


def find_group(shop_ids: Sequence[int], generation: int) -> int | None:
    """Return the `shop_id` of the first orders of the group of exactly these shops, or None if it does not exist."""
    shops = OwnerGroupShop.objects.filter(generation=generation)
    owner = shops.filter(shop_id=shop_ids[0]).values("owner_id")
    rows = list(shops.filter(owner_id__in=owner).values_list("owner_id", "shop_id"))
    return -rows[0][0] if {shop_id for _, shop_id in rows} == set(shop_ids) else None


def update_next_group() -> bool:
    """Create, update or delete one owner group whose shops changed.

    Return False when all groups are up to date, or while another process has the lock.
    """
    return run_exclusively(_update_next_group, if_busy=False)


def _update_next_group(state: RollupState) -> bool:
    if state.has_current_owner_groups:
        changed = _update_one(state.generation)
    else:
        changed = bool(OwnerGroupShop.objects.filter(generation=state.generation).delete()[0])
    # Written after every change, so that PostgreSQL refuses a concurrent step with an older snapshot.
    if changed or not state.has_current_owner_groups:
        RollupState.objects.filter(pk=1).update(owner_groups_aggregated_at=state.aggregated_at)
    return changed


def _update_one(generation: int) -> bool:
    """Delete a group that lost a shop, or else create one that is missing or gained a shop; return False for none."""
    owners = Shop.objects.order_by().values("owner").annotate(shops=Count("pk")).filter(shops__gt=1).values("owner")
    expected = Shop.objects.order_by().filter(owner__in=owners).values_list("owner_id", "pk")
    existing = OwnerGroupShop.objects.filter(generation=generation).values_list("owner_id", "shop_id")
    for owner, _ in existing.difference(expected)[:1]:
        _delete(generation, owner)
        return True
    for owner, _ in expected.difference(existing)[:1]:
        _delete(generation, owner)
        OwnerGroupShop.objects.bulk_create(
            OwnerGroupShop(generation=generation, owner_id=owner, shop_id=shop_id)
            for shop_id in Shop.objects.filter(owner=owner).values_list("pk", flat=True)
        )
        where = "WHERE g.generation = %(generation)s AND g.owner_id = %(owner)s"
        _insert_first_orders(where, {"generation": generation, "owner": owner})
        return True
    return False


def _delete(generation: int, owner: int) -> None:
    OwnerGroupShop.objects.filter(generation=generation, owner_id=owner).delete()
    FirstOrder.objects.filter(generation=generation, shop_id=-owner).delete()


def recompute_first_orders(pairs: Collection[CustomerOfShop], generation: int) -> None:
    """Recompute the groups' first orders after the first order of these pairs may have become a later one."""
    select, values = select_pairs(pairs)
    # SQLite keeps the order of a CROSS JOIN: with the groups first it would read the pairs once for each.
    lost = f"""
        SELECT g.owner_id, pairs.customer_id FROM ({select}) AS pairs CROSS JOIN {OWNER_GROUP_SHOPS} g
        WHERE g.generation = %(generation)s AND g.shop_id = pairs.shop_id
        """  # noqa: S608  # nosec B608
    values["generation"] = generation
    groups = f"SELECT -owner_id, customer_id FROM ({lost}) AS lost"  # noqa: S608  # nosec B608
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {FIRST_ORDERS} WHERE generation = %(generation)s AND (shop_id, customer_id) IN ({groups})",  # noqa: S608  # nosec B608
            values,
        )
    condition = "g.generation = %(generation)s AND lost.owner_id = g.owner_id AND lost.customer_id = f.customer_id"
    _insert_first_orders(f"JOIN ({lost}) AS lost ON {condition}", values)


def _insert_first_orders(clause: str, values: Mapping[str, Any]) -> None:
    columns = "generation, shop_id, customer_id, first_at"
    select = GROUP_FIRST_ORDERS.format(clause=clause)
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {FIRST_ORDERS} ({columns}) {select}", values)  # nosec B608
