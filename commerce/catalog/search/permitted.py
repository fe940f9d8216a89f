"""Restriction of an index's results to the products that a user may see, of which the products' table decides."""

from collections.abc import Callable, Collection, Sequence

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet

from commerce.catalog.models import Product
from commerce.catalog.search.lookups import IN_IDS, ids_parameter

MAX_CANDIDATES = 20_000


class PermittedProducts:
    """The products that a user may see: those of a queryset, of which a search asks several times.

    Its SQL is made once, which takes Django five times as long as it takes a database to read a few products.
    """

    def __init__(self, products: "QuerySet[Product]") -> None:
        try:
            sql, self._parameters = products.order_by().values_list("pk").query.sql_with_params()
        except EmptyResultSet:
            self._sql = ""
        else:
            self._sql = f"SELECT pk FROM ({sql}) permitted WHERE pk {IN_IDS[connection.vendor]}"  # nosec B608

    def among(self, ids: Collection[int]) -> set[int]:
        """Return those of the ids that are of products which the user may see."""
        if not ids or not self._sql:
            return set()
        with connection.cursor() as cursor:
            cursor.execute(self._sql, [*self._parameters, ids_parameter(ids, connection.vendor)])
            return {pk for (pk,) in cursor.fetchall()}

    def best(self, find: Callable[[int], Sequence[int]], limit: int) -> list[int]:
        """Return the first `limit` permitted ids of those that `find` returns, the best first.

        `find` returns as many ids as it is asked for, or all. It is asked again for more if others took their places.
        Joined with an index, the planner of PostgreSQL would read all products.
        """
        count = limit + limit // 4 + 10
        while True:
            ids = find(count)
            permitted = self.among(ids)
            found = [product_id for product_id in ids if product_id in permitted]
            if len(found) >= limit or len(ids) < count or count >= MAX_CANDIDATES:
                return found[:limit]
            count *= 4
