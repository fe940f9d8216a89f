"""Chains: the shops of an owner who has several. Who is new to a chain is counted as for one shop, from first orders of
its own, which folding keeps and which are made anew once the owner has other shops.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import connection
from django.db.models import Count

from commerce.analytics import chosen
from commerce.analytics.chosen import Pair
from commerce.analytics.models import ChainShop, FirstOrder
from commerce.shops.models import Shop

CHAINS, FIRST = ChainShop._meta.db_table, FirstOrder._meta.db_table
# What the first orders of chains are, by those of their shops.
FIRST_ORDERS = f"""
    SELECT f.generation, -c.owner_id AS shop_id, f.customer_id, MIN(f.first_at) AS first_at
    FROM {CHAINS} c JOIN {FIRST} f ON f.generation = c.generation AND f.shop_id = c.shop_id
    {{which}} GROUP BY f.generation, c.owner_id, f.customer_id
    """  # noqa: S608  # nosec B608


def find(shop_ids: Sequence[int], generation: int) -> int | None:
    """The `shop_id` of the first orders from any of exactly these shops; None where they are not made."""
    known = ChainShop.objects.filter(generation=generation)
    owner = known.filter(shop_id=shop_ids[0]).values("owner_id")
    rows = list(known.filter(owner_id__in=owner).values_list("owner_id", "shop_id"))
    return -rows[0][0] if {shop_id for _, shop_id in rows} == set(shop_ids) else None


def make_one(generation: int) -> bool:
    """Takes away a chain that has lost a shop, or else makes one that is not made, or has a new shop. False where all
    are as they should be. From within a step that has the lock of Books."""
    several = Shop.objects.order_by().values("owner").annotate(shops=Count("pk")).filter(shops__gt=1).values("owner")
    owned = Shop.objects.order_by().filter(owner__in=several).values_list("owner_id", "pk")
    made = ChainShop.objects.filter(generation=generation).values_list("owner_id", "shop_id")
    for owner, _ in made.difference(owned)[:1]:
        _take_away(generation, owner)
        return True
    for owner, _ in owned.difference(made)[:1]:
        _take_away(generation, owner)
        ChainShop.objects.bulk_create(
            ChainShop(generation=generation, owner_id=owner, shop_id=shop_id)
            for shop_id in Shop.objects.filter(owner=owner).values_list("pk", flat=True)
        )
        where = "WHERE c.generation = %(generation)s AND c.owner_id = %(owner)s"
        _insert(where, {"generation": generation, "owner": owner})
        return True
    return False


def _take_away(generation: int, owner: int) -> None:
    ChainShop.objects.filter(generation=generation, owner_id=owner).delete()
    FirstOrder.objects.filter(generation=generation, shop_id=-owner).delete()


def find_again(pairs: Collection[Pair], generation: int) -> None:
    """After a shop's first order of a customer, by these pairs of ids, may have become a later one."""
    rows, values = chosen.select(pairs)
    # SQLite keeps to the order of a CROSS JOIN: the chains first, it would read the pairs once for each.
    lost = f"""
        SELECT c.owner_id, pairs.customer_id FROM ({rows}) AS pairs CROSS JOIN {CHAINS} c
        WHERE c.generation = %(generation)s AND c.shop_id = pairs.shop_id
        """  # noqa: S608  # nosec B608
    values["generation"] = generation
    of_chains = f"SELECT -owner_id, customer_id FROM ({lost}) AS lost"  # noqa: S608  # nosec B608
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {FIRST} WHERE generation = %(generation)s AND (shop_id, customer_id) IN ({of_chains})",  # noqa: S608  # nosec B608
            values,
        )
    condition = "c.generation = %(generation)s AND lost.owner_id = c.owner_id AND lost.customer_id = f.customer_id"
    _insert(f"JOIN ({lost}) AS lost ON {condition}", values)


def _insert(which: str, values: Mapping[str, Any]) -> None:
    columns = "generation, shop_id, customer_id, first_at"
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {FIRST} ({columns}) {FIRST_ORDERS.format(which=which)}", values)  # nosec B608
