"""The public products of a language as columns in the memory of this process, which facets are counted from.

A database reads a hundred thousand rows for each facet, which takes it a tenth of a second; numpy takes a millisecond.
The columns follow the edits of products and shops at once. Stock, ratings and rows that were deleted outside of the
services follow within MAX_AGE_SECONDS.
"""

import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import numpy as np
from django.conf import settings
from django.db import connection
from django.db.models import Aggregate, Case, F, Max, QuerySet, TextField, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast
from django.db.models.sql.compiler import SQLCompiler
from numpy.typing import NDArray

from commerce.catalog.models import Product, ProductValue
from commerce.catalog.search.lookups import IdIn
from commerce.shops.models import Shop
from shared.api.limits.query_limits import pause_query_time

REFRESH_AFTER_SECONDS = 15.0  # in a thread of its own
MAX_AGE_SECONDS = 30.0
MAX_CHANGED = 2000  # products that are read by their ids
MAX_TRANSACTION = timedelta(seconds=10)  # an edit may become visible so much later than its time
NO_PRICE = -1  # in the platform's currency

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Pairs: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]  # two columns of linked ids


@dataclass(frozen=True)
class Choices:
    """A column with few different ids: `codes` are positions in `ids`."""

    ids: Integers
    codes: Integers

    @classmethod
    def of(cls, column: Integers) -> "Choices":
        ids, codes = np.unique(column, return_inverse=True)
        return cls(ids, codes)

    def count(self, chosen: Mask) -> Counter[int]:
        counts = np.bincount(self.codes[chosen], minlength=len(self.ids))
        return Counter({pk: count for pk, count in zip(self.ids.tolist(), counts.tolist(), strict=True) if count})

    def within(self, ids: Collection[int]) -> Mask:
        """Return where the column has one of these ids."""
        return np.isin(self.ids, np.array(list(ids), np.int64))[self.codes]


@dataclass(frozen=True)
class Links:
    """Links of products to categories or attribute values. `rows` are positions of the products in their columns."""

    product_ids: Integers
    rows: Integers
    targets: Choices

    @classmethod
    def of(cls, product_ids: Integers, target_ids: Integers, all_ids: Integers) -> "Links":
        """Return the links of the products in `all_ids`, which ascend."""
        rows = np.searchsorted(all_ids, product_ids)
        known = all_ids.take(rows, mode="clip") == product_ids if len(all_ids) else np.zeros(len(rows), np.bool_)
        return cls(product_ids[known], rows[known], Choices.of(target_ids[known]))

    def count(self, chosen: Mask) -> Counter[int]:
        """Count the chosen products by what they are linked to."""
        return self.targets.count(chosen[self.rows])

    def pairs(self) -> Pairs:
        return self.product_ids, self.targets.ids[self.targets.codes]


@dataclass(frozen=True)
class ProductColumns:
    """Columns of one length: a row is a product. `prices` are in minor units of the platform's currency."""

    ids: Integers
    shops: Integers
    types: Choices
    prices: Integers
    ratings: NDArray[np.float64]
    quantities: Integers
    categories: Links
    values: Links

    @classmethod
    def of(cls, rows: Mapping[str, NDArray[Any]], categories: Pairs, values: Pairs) -> "ProductColumns":
        """Return the columns of rows in any order, and of pairs of linked ids."""
        order = np.argsort(rows["ids"])
        sorted_rows: Any = {name: column[order] for name, column in rows.items()}
        ids = sorted_rows["ids"]
        sorted_rows["types"] = Choices.of(sorted_rows["types"])
        return cls(**sorted_rows, categories=Links.of(*categories, ids), values=Links.of(*values, ids))

    def __len__(self) -> int:
        return len(self.ids)

    def with_ids(self, product_ids: Collection[int]) -> Mask:
        return np.isin(self.ids, np.array(list(product_ids), np.int64))

    def linked_to(self, links: Links, targets: Collection[int]) -> Mask:
        """Return which products have a link to one of the targets."""
        linked = np.zeros(len(self), np.bool_)
        linked[links.rows[links.targets.within(targets)]] = True
        return linked

    def rows(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the products themselves."""
        return {
            "ids": self.ids, "shops": self.shops, "types": self.types.ids[self.types.codes], "prices": self.prices,
            "ratings": self.ratings, "quantities": self.quantities,
        }  # fmt: skip

    def replaced(self, changed: Collection[int], new: "ProductColumns") -> "ProductColumns":
        """Return these columns with what `new` has of the changed products."""
        changed_ids = np.array(list(changed), np.int64)
        kept, added = ~np.isin(self.ids, changed_ids), new.rows()
        rows = {name: np.concatenate([column[kept], added[name]]) for name, column in self.rows().items()}
        categories, values = (
            _joined(old.pairs(), changed_ids, others.pairs())
            for old, others in ((self.categories, new.categories), (self.values, new.values))
        )
        return ProductColumns.of(rows, categories, values)


def _joined(old: Pairs, changed: Integers, new: Pairs) -> Pairs:
    kept = ~np.isin(old[0], changed)
    return np.concatenate([old[0][kept], new[0]]), np.concatenate([old[1][kept], new[1]])


@dataclass(frozen=True)
class _Snapshot:
    columns: ProductColumns
    product_at: datetime | None  # times of the last edits that it has
    shop_at: datetime | None
    read_at: float  # of the monotonic clock


_columns: "dict[str, LanguageColumns]" = {}


class LanguageColumns:
    """The columns of one language, shared by the threads of the process. A snapshot never changes."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._reading = threading.Lock()
        self._snapshot: _Snapshot | None = None

    def current(self) -> ProductColumns:
        """Return the columns with all edits that are committed."""
        product_at, shop_at = _last_edits()
        snapshot = self._snapshot
        if snapshot is None or not self._is_current(snapshot, product_at, shop_at):
            with self._reading:
                snapshot = self._snapshot
                if snapshot is None or not self._is_current(snapshot, product_at, shop_at):
                    with pause_query_time():
                        snapshot = self._snapshot = self._read(snapshot, product_at, shop_at)
        elif time.monotonic() - snapshot.read_at > REFRESH_AFTER_SECONDS:
            self._refresh_later()
        return snapshot.columns

    def _is_current(self, snapshot: _Snapshot, product_at: datetime | None, shop_at: datetime | None) -> bool:
        is_young = time.monotonic() - snapshot.read_at <= MAX_AGE_SECONDS
        return is_young and (snapshot.product_at, snapshot.shop_at) == (product_at, shop_at)

    def _read(self, former: _Snapshot | None, product_at: datetime | None, shop_at: datetime | None) -> _Snapshot:
        """Read what has changed since the former snapshot, or everything."""
        is_young = former is not None and time.monotonic() - former.read_at <= MAX_AGE_SECONDS
        if former is not None and is_young and former.shop_at == shop_at and former.product_at and product_at:
            edited = Product.objects.filter(updated_at__gte=former.product_at - MAX_TRANSACTION).order_by()
            changed = list(edited.values_list("pk", flat=True)[: MAX_CHANGED + 1])
            if len(changed) <= MAX_CHANGED:
                columns = former.columns.replaced(changed, self._read_columns(changed))
                return replace(former, columns=columns, product_at=product_at)
        return _Snapshot(self._read_columns(None), product_at, shop_at, time.monotonic())

    def _read_columns(self, product_ids: Sequence[int] | None) -> ProductColumns:
        products = Product.objects.public().filter(language=self._language).order_by()
        rows = _read_rows(products if product_ids is None else products.filter(IdIn(product_ids)))
        ids = rows["ids"] if len(rows["ids"]) <= MAX_CHANGED else None
        categories = _read_links(Product.categories.through._default_manager, "category_id", ids)
        return ProductColumns.of(rows, categories, _read_links(ProductValue.objects, "value_id", ids))

    def _refresh_later(self) -> None:
        """Read everything anew in a thread, unless one does."""
        if self._reading.acquire(blocking=False):
            try:
                threading.Thread(target=self._refresh, name="facet columns", daemon=True).start()
            except RuntimeError:  # no more threads: a later request tries again
                self._reading.release()

    def _refresh(self) -> None:
        try:
            self._snapshot = self._read(None, *_last_edits())
        finally:
            self._reading.release()
            connection.close()  # of this thread


def _last_edits() -> tuple[datetime | None, datetime | None]:
    """Return the times of the last edits of a product and of a shop."""
    product_at, shop_at = (model._default_manager.aggregate(at=Max("updated_at"))["at"] for model in (Product, Shop))
    return product_at, shop_at


def _read_rows(products: "QuerySet[Product]") -> dict[str, NDArray[Any]]:
    price = Case(When(currency=settings.CURRENCY, then=F("min_price")), default=Value(NO_PRICE))
    return _read_numbers(
        products,
        ids=F("pk"), shops=F("shop_id"), types=F("type_id"), prices=price, ratings=F("ratings"),
        quantities=F("quantity"),
    )  # fmt: skip


def _read_links(links: Any, target: str, product_ids: Integers | None) -> Pairs:
    """Return the pairs of linked ids of these products, or of all."""
    found = links if product_ids is None else links.filter(product__in=product_ids.tolist())
    numbers = _read_numbers(found.order_by(), products=F("product_id"), targets=F(target))
    return numbers["products"], numbers["targets"]


class _TextsOfRows(Aggregate):
    """Texts of the rows, with commas between."""

    function = "STRING_AGG"
    template = "%(function)s(%(expressions)s, ',')"
    output_field = TextField()

    def as_sqlite(self, compiler: SQLCompiler, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, function="GROUP_CONCAT", **context)


def _read_numbers(rows: "QuerySet[Any]", **columns: Combinable) -> dict[str, NDArray[Any]]:
    """Return columns of numbers without nulls, in one order of the rows; all but ratings are whole ones.

    The database writes each as one text. Read as rows, they would keep the other threads of the process waiting for
    ten times as long.
    """
    texts = {name: _TextsOfRows(Cast(column, TextField())) for name, column in columns.items()}
    found = rows.aggregate(**{f"all_{name}": text for name, text in texts.items()})
    return {
        name: np.fromstring(found[f"all_{name}"] or "", np.float64 if name == "ratings" else np.int64, sep=",")
        for name in columns
    }


def columns_of(language: str) -> LanguageColumns:
    """Return the columns of a language, which are read when they are first used.

    Those of a language without products are not kept: requests may name any.
    """
    columns = _columns.get(language) or LanguageColumns(language)
    if language not in _columns and Product.objects.filter(language=language).exists():
        return _columns.setdefault(language, columns)
    return columns


def forget_columns() -> None:
    """Drop all columns: their tables have been replaced, as in a test."""
    _columns.clear()
