"""Reads about products: counts and sales by category, ratings, and languages. Run them within a snapshot.

Those by category read every product of the shops. A process therefore reuses what took it long.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from hashlib import blake2b
from typing import Any

from django.core.cache.backends.locmem import LocMemCache
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Count, Q, Sum

from commerce.analytics.aggregation.id_lists import in_ids
from commerce.analytics.models import LedgerEntry, ProductRollup, RollupState
from commerce.catalog.models import Category, Product
from commerce.shops.models import Shop

ProductCategory = Product.categories.through
ALL_PRODUCTS = Q()
MIN_REUSED_SECONDS = 0.05  # what takes less is computed each time
REUSE_RATIO = 20  # other results are given again for this many times as long as they took
_results = LocMemCache("category_counts", {"OPTIONS": {"MAX_ENTRIES": 1000}})  # in this process

LIVE_LANGUAGES = f"SELECT language FROM {Product._meta.db_table} product WHERE deleted_at IS NULL"  # noqa: S608  # nosec B608
# A loose index scan: each language is found from the one before it, however many products there are.
LANGUAGES_BY_COUNT = f"""
    WITH RECURSIVE found (language) AS (
        SELECT ({LIVE_LANGUAGES} ORDER BY product.language LIMIT 1)
        UNION ALL
        SELECT ({LIVE_LANGUAGES} AND product.language > found.language ORDER BY product.language LIMIT 1)
        FROM found WHERE found.language IS NOT NULL
    ),
    counted (language, products) AS (
        SELECT language, (
            SELECT COUNT(*) FROM ({LIVE_LANGUAGES} AND product.language = found.language LIMIT 1000) AS sample
        )
        FROM found WHERE language IS NOT NULL
    )
    SELECT language FROM counted ORDER BY products DESC, language
    """  # noqa: S608  # nosec B608


@dataclass(frozen=True, kw_only=True)
class CategoryCount:
    """The number of a shop's products in a category, or of their units sold."""

    category_id: int
    category_name: str
    shop_id: int
    shop_name: str
    count: int


@dataclass(frozen=True, kw_only=True)
class RatedProduct:
    """A product with the stars of its visible reviews."""

    product: Product
    stars: int
    reviews: int

    @property
    def average(self) -> float:
        return self.stars / self.reviews


Counting = Callable[..., list[CategoryCount]]


def reused(compute: Counting) -> Counting:
    """Reuse the slow results of a function of keywords for a while, but for those with a condition on products."""

    @wraps(compute)
    def reuse(**arguments: Any) -> list[CategoryCount]:
        if arguments.get("matching"):
            return compute(**arguments)
        key = blake2b(repr((compute.__name__, sorted(arguments.items()))).encode()).hexdigest()
        if (known := _results.get(key)) is not None:
            return known  # type: ignore[no-any-return]
        began = time.monotonic()
        result = compute(**arguments)
        seconds = time.monotonic() - began
        if seconds >= MIN_REUSED_SECONDS:
            _results.set(key, result, REUSE_RATIO * seconds)
        return result

    return reuse


@reused
def count_products_by_category(
    *, shop_ids: Sequence[int] | None, language: str, limit: int, matching: Q = ALL_PRODUCTS
) -> list[CategoryCount]:
    """Return the number of products in each category of each shop, largest first, without deleted products.

    `shop_ids` of None means all shops; `matching` is a condition on products.
    """
    rows = ProductCategory.objects.filter(product__deleted_at=None, category__language=language)
    if matching:
        rows = rows.filter(product__in=Product.objects.filter(matching))
    if shop_ids is not None:
        rows = rows.filter(product__shop__in=shop_ids)
    counts = rows.values_list("category_id", "product__shop_id").annotate(products=Count("pk"))
    return _with_names(counts.order_by("-products", "category_id", "product__shop_id")[:limit])  # type: ignore[misc]


@reused
def count_sales_by_category(
    *,
    shop_ids: Sequence[int] | None,
    language: str,
    limit: int,
    currency: str | None = None,
    matching: Q = ALL_PRODUCTS,
) -> list[CategoryCount]:
    """Return the units sold in complete orders, by category and selling shop, largest first.

    Deleted products count too. A product in several categories counts in each.
    """
    if shop_ids is not None and not shop_ids:
        return []
    scope = Q() if shop_ids is None else Q(shop_id__in=shop_ids)
    if currency is not None:
        scope &= Q(currency=currency)
    if matching:
        scope &= Q(product_id__in=Product.objects.filter(matching).values("pk"))
    rollups = ProductRollup.objects.filter(scope, generation=_generation()).exclude(units=0)
    entries = LedgerEntry.objects.filter(scope).exclude(units=0)
    columns = ("product_id", "shop_id", "units")
    rows = rollups.order_by().values_list(*columns).union(entries.order_by().values_list(*columns), all=True)
    try:
        select, values = rows.query.sql_with_params()
    except EmptyResultSet:  # no product can match
        return []
    with connection.cursor() as cursor:
        cursor.execute(_sales_statement(select), [*values, language, limit])
        return _with_names(cursor.fetchall())


def _sales_statement(rows: str) -> str:
    """Return the statement that sums the units of `rows` by category and shop.

    Units are summed by product before the join, so that many entries of a product become one row. The cast avoids
    PostgreSQL's numeric, which is slow to sum again.
    """
    product_category, category = ProductCategory._meta.db_table, Category._meta.db_table
    return f"""
        WITH units_sold (product_id, shop_id, units) AS ({rows}),
        sold AS (SELECT product_id, shop_id, CAST(SUM(units) AS bigint) AS units FROM units_sold
                 GROUP BY product_id, shop_id)
        SELECT category.id, sold.shop_id, SUM(sold.units) FROM sold
        JOIN {product_category} product_category ON product_category.product_id = sold.product_id
        JOIN {category} category ON category.id = product_category.category_id AND category.language = %s
        GROUP BY category.id, sold.shop_id HAVING SUM(sold.units) <> 0
        ORDER BY SUM(sold.units) DESC, category.id, sold.shop_id LIMIT %s
        """  # noqa: S608  # nosec B608


def top_rated_products(
    *, shop_ids: Sequence[int] | None, language: str, limit: int, matching: Q = ALL_PRODUCTS
) -> list[RatedProduct]:
    """Return the products with the best average of stars, then the most reviews, then the oldest; none deleted."""
    products = Product.objects.live().filter(matching, language=language)
    if shop_ids is not None:
        products = products.filter(shop__in=shop_ids)
    waiting = _waiting_stars()
    waiting_ids = in_ids(waiting)
    rollups = ProductRollup.objects.filter(generation=_generation(), shop_id=0, currency="")
    settled = rollups.filter(reviews__gt=0, product_id__in=products.values("pk")).exclude(product_id__in=waiting_ids)
    best = settled.order_by("-average", "-reviews", "product_id").values_list("product_id", "stars", "reviews")[:limit]
    ratings = {pk: (stars, reviews) for pk, stars, reviews in best}
    if waiting:
        rows = rollups.filter(product_id__in=waiting_ids).values_list("product_id", "stars", "reviews")
        aggregated = {pk: (stars, reviews) for pk, stars, reviews in rows}
        for pk in products.filter(pk__in=waiting_ids).values_list("pk", flat=True):
            (stars, reviews), (more_stars, more_reviews) = aggregated.get(pk, (0, 0)), waiting[pk]
            ratings[pk] = stars + more_stars, reviews + more_reviews
    ranked = sorted(
        (pk for pk, (_, reviews) in ratings.items() if reviews),
        key=lambda pk: (-ratings[pk][0] / ratings[pk][1], -ratings[pk][1], pk),
    )[:limit]
    found = products.select_related("type", "image").in_bulk(ranked)
    return [RatedProduct(product=found[pk], stars=ratings[pk][0], reviews=ratings[pk][1]) for pk in ranked]


def product_languages(*, shop_ids: Sequence[int] | None) -> list[str]:
    """Return the languages of products, the most frequent first, without deleted products.

    For all shops together, each language is counted up to 1,000 products only: counting all would take too long.
    """
    if shop_ids is None:
        with connection.cursor() as cursor:
            cursor.execute(LANGUAGES_BY_COUNT)
            return [language for (language,) in cursor.fetchall()]
    rows = Product.objects.live().filter(shop__in=shop_ids).order_by().values_list("language")
    return [language for language, _ in rows.annotate(products=Count("pk")).order_by("-products", "language")]


def category_languages(*, shop_ids: Sequence[int] | None) -> list[str]:
    """Return the languages of all categories, or of those that contain products of these shops."""
    used = ProductCategory.objects.filter(product__shop__in=shop_ids or ()).values("category_id")
    categories = Category.objects.all() if shop_ids is None else Category.objects.filter(pk__in=used)
    return list(categories.order_by("language").values_list("language", flat=True).distinct())


def _waiting_stars() -> dict[int, tuple[int, int]]:
    """Return the stars and reviews that wait for aggregation, by product."""
    rows = LedgerEntry.objects.filter(~Q(reviews=0) | ~Q(stars=0)).values_list("product_id")
    sums = rows.annotate(more_stars=Sum("stars"), more_reviews=Sum("reviews")).order_by()
    return {pk: (stars, reviews) for pk, stars, reviews in sums}


def _generation() -> int:
    return RollupState.objects.get(pk=1).generation


def _with_names(rows: Iterable[tuple[int, int, int]]) -> list[CategoryCount]:
    """Return counts of category id, shop id and count; databases group by ids alone in half the time."""
    counts = list(rows)
    categories = dict(Category.objects.filter(pk__in={row[0] for row in counts}).values_list("pk", "name"))
    shops = dict(Shop.objects.filter(pk__in={row[1] for row in counts}).values_list("pk", "name"))
    return [
        CategoryCount(
            category_id=category_id,
            category_name=categories[category_id],
            shop_id=shop_id,
            shop_name=shops[shop_id],
            count=int(count),
        )
        for category_id, shop_id, count in counts
    ]
