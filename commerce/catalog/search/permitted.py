"""Restriction of an index's results to the products that a user may see, of which the products' table decides."""

from collections.abc import Callable, Sequence

from django.db.models import QuerySet

from commerce.catalog.models import Product
from commerce.catalog.search.lookups import IdIn

MAX_CANDIDATES = 20_000


def best_permitted(find: Callable[[int], Sequence[int]], products: "QuerySet[Product]", limit: int) -> list[int]:
    """Return the first `limit` ids that `products` has of those that `find` returns, the best first.

    `find` returns as many ids as it is asked for, or all. It is asked again for more if others took their places.
    Joined with an index, the planner of PostgreSQL would read all products.
    """
    count = limit + limit // 4 + 10
    while True:
        ids = find(count)
        permitted = set(products.order_by().filter(IdIn(ids)).values_list("pk", flat=True))
        found = [product_id for product_id in ids if product_id in permitted]
        if len(found) >= limit or len(ids) < count or count >= MAX_CANDIDATES:
            return found[:limit]
        count *= 4
