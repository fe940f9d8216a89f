"""Rows that are chosen by what Python knows, however many they are: SQLite takes 250,000 values in a statement."""

import json
from collections.abc import Collection
from typing import Any

from django.db import connection
from django.db.models.expressions import RawSQL

Pair = tuple[int, int]  # of a shop and a customer


def among(ids: Collection[int]) -> RawSQL | list[int]:
    """What `__in` takes for one of these."""
    if connection.vendor == "sqlite":
        return RawSQL("SELECT value FROM json_each(%s)", [json.dumps(list(ids))])
    return list(ids)


def select(pairs: Collection[Pair]) -> tuple[str, dict[str, Any]]:
    """The SELECT that has each pair as a row of `shop_id` and `customer_id`, and its values."""
    if connection.vendor == "sqlite":
        columns = "json_extract(value, '$[0]') AS shop_id, json_extract(value, '$[1]') AS customer_id"
        return f"SELECT {columns} FROM json_each(%(pairs)s)", {"pairs": json.dumps(list(pairs))}  # noqa: S608  # nosec B608
    rows = "unnest(%(shop_ids)s::bigint[], %(customer_ids)s::bigint[]) AS pairs (shop_id, customer_id)"
    shop_ids, customer_ids = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return f"SELECT shop_id, customer_id FROM {rows}", {"shop_ids": shop_ids, "customer_ids": customer_ids}  # noqa: S608  # nosec B608
