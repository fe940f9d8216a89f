"""Long lists of ids as one SQL parameter: SQLite accepts at most 250,000 values in a statement."""

import json
from collections.abc import Collection, Iterable
from typing import Any

from django.db import connection
from django.db.models.expressions import RawSQL

CustomerOfShop = tuple[int, int]  # a shop's id and a customer's id


def in_ids(ids: Collection[int]) -> RawSQL | list[int]:
    """Return a value for an `__in` lookup that matches these ids."""
    if connection.vendor == "sqlite":
        return RawSQL("SELECT value FROM json_each(%s)", [json.dumps(list(ids))])
    return list(ids)


def id_condition(ids: Iterable[int]) -> tuple[str, dict[str, Any]]:
    """Return the SQL condition that the column `id` is one of these, and its parameters."""
    if connection.vendor == "sqlite":
        return "id IN (SELECT value FROM json_each(%(ids)s))", {"ids": json.dumps(list(ids))}
    return "id = ANY(%(ids)s::bigint[])", {"ids": list(ids)}


def select_pairs(pairs: Collection[CustomerOfShop]) -> tuple[str, dict[str, Any]]:
    """Return the SELECT of the pairs, as columns `shop_id` and `customer_id`, and its parameters."""
    if connection.vendor == "sqlite":
        columns = "json_extract(value, '$[0]') AS shop_id, json_extract(value, '$[1]') AS customer_id"
        return f"SELECT {columns} FROM json_each(%(pairs)s)", {"pairs": json.dumps(list(pairs))}  # noqa: S608  # nosec B608
    rows = "unnest(%(shop_ids)s::bigint[], %(customer_ids)s::bigint[]) AS pairs (shop_id, customer_id)"
    shop_ids, customer_ids = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return f"SELECT shop_id, customer_id FROM {rows}", {"shop_ids": shop_ids, "customer_ids": customer_ids}  # noqa: S608  # nosec B608
