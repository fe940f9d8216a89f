"""What is sold and liked: categories and products. Opened like a report, and of one moment too."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.models import Count, Q, Sum

from commerce.analytics.chosen import among
from commerce.analytics.models import Books, Entry, ProductFigure
from commerce.catalog.models import Category, Product
from commerce.shops.models import Shop

SHELVES = Product.categories.through

LIVE = f"SELECT language FROM {Product._meta.db_table} product WHERE deleted_at IS NULL"  # noqa: S608  # nosec B608
# Each from the one before it, by the index of languages: of more products that are not deleted it takes no longer.
EVERY_LANGUAGE = f"""
    WITH RECURSIVE found (language) AS (
        SELECT ({LIVE} ORDER BY product.language LIMIT 1)
        UNION ALL
        SELECT ({LIVE} AND product.language > found.language ORDER BY product.language LIMIT 1)
        FROM found WHERE found.language IS NOT NULL
    ),
    counted (language, products) AS (
        SELECT language, (SELECT COUNT(*) FROM ({LIVE} AND product.language = found.language LIMIT 1000) AS few)
        FROM found WHERE language IS NOT NULL
    )
    SELECT language FROM counted ORDER BY products DESC, language
    """  # noqa: S608  # nosec B608


@dataclass(frozen=True, kw_only=True)
class CategoryCount:
    """How many products of a shop stand in a category, or how many pieces were sold of them."""

    category_id: int
    category_name: str
    shop_id: int
    shop_name: str
    count: int


@dataclass(frozen=True, kw_only=True)
class RatedProduct:
    """A product with the stars of the reviews that anybody may read."""

    product: Product
    stars: int
    reviews: int

    @property
    def average(self) -> float:
        return self.stars / self.reviews


def category_products(*, shop_ids: Sequence[int] | None, language: str, limit: int) -> list[CategoryCount]:
    """The products in each category of each shop, most first; all but deleted ones. `shop_ids` of None is all shops."""
    shelves = SHELVES.objects.filter(product__deleted_at=None, category__language=language)
    if shop_ids is not None:
        shelves = shelves.filter(product__shop__in=shop_ids)
    counted = shelves.values_list("category_id", "product__shop_id").annotate(products=Count("pk"))
    return _named(counted.order_by("-products", "category_id", "product__shop_id")[:limit])  # type: ignore[misc]


def category_sales(
    *, shop_ids: Sequence[int] | None, language: str, limit: int, currency: str | None = None
) -> list[CategoryCount]:
    """The pieces sold in complete orders, by the category and the shop that sold them, most first. A product that was
    deleted since was sold all the same; one that stands in several categories counts in each."""
    if shop_ids is not None and not shop_ids:
        return []
    scope = Q() if shop_ids is None else Q(shop_id__in=shop_ids)
    if currency is not None:
        scope &= Q(currency=currency)
    figures = ProductFigure.objects.filter(scope, generation=_generation()).exclude(units=0)
    entries = Entry.objects.filter(scope).exclude(units=0)
    columns = ("product_id", "shop_id", "units")
    sold, values = (
        figures.order_by().values_list(*columns).union(entries.order_by().values_list(*columns), all=True)
    ).query.sql_with_params()
    shelf, category = SHELVES._meta.db_table, Category._meta.db_table
    # Products are added up before they are joined: of many entries there is then one row of each. PostgreSQL's sum of
    # integers is a numeric, which is slow to add up again.
    statement = f"""
        WITH pieces (product_id, shop_id, units) AS ({sold}),
        sold AS (SELECT product_id, shop_id, CAST(SUM(units) AS bigint) AS units FROM pieces
                 GROUP BY product_id, shop_id)
        SELECT category.id, sold.shop_id, SUM(sold.units) FROM sold
        JOIN {shelf} shelf ON shelf.product_id = sold.product_id
        JOIN {category} category ON category.id = shelf.category_id AND category.language = %s
        GROUP BY category.id, sold.shop_id HAVING SUM(sold.units) <> 0
        ORDER BY SUM(sold.units) DESC, category.id, sold.shop_id LIMIT %s
        """  # noqa: S608  # nosec B608
    with connection.cursor() as cursor:
        cursor.execute(statement, [*values, language, limit])
        return _named(cursor.fetchall())


def top_rated(*, shop_ids: Sequence[int] | None, language: str, limit: int) -> list[RatedProduct]:
    """The products with the best average of stars, then with the most reviews, then the oldest; no deleted ones."""
    products = Product.objects.live().filter(language=language)
    if shop_ids is not None:
        products = products.filter(shop__in=shop_ids)
    changed = dict(_changed_stars())
    waiting = among(changed)
    known = ProductFigure.objects.filter(generation=_generation(), shop_id=0, currency="")
    settled = known.filter(reviews__gt=0, product_id__in=products.values("pk")).exclude(product_id__in=waiting)
    best = settled.order_by("-average", "-reviews", "product_id").values_list("product_id", "stars", "reviews")[:limit]
    stars = {pk: (given, count) for pk, given, count in best}
    if changed:
        folded = known.filter(product_id__in=waiting).values_list("product_id", "stars", "reviews")
        before = {pk: (given, count) for pk, given, count in folded}
        for pk in products.filter(pk__in=waiting).values_list("pk", flat=True):
            (given, count), (more, reviews) = before.get(pk, (0, 0)), changed[pk]
            stars[pk] = given + more, count + reviews
    ranked = sorted(
        (pk for pk, (_, count) in stars.items() if count),
        key=lambda pk: (-stars[pk][0] / stars[pk][1], -stars[pk][1], pk),
    )[:limit]
    found = products.select_related("type", "image").in_bulk(ranked)
    return [RatedProduct(product=found[pk], stars=stars[pk][0], reviews=stars[pk][1]) for pk in ranked]


def product_languages(*, shop_ids: Sequence[int] | None) -> list[str]:
    """Those of the products, that of most first; of all shops together, where many products cannot be counted at once,
    by how many each has up to a thousand. No deleted products."""
    if shop_ids is None:
        with connection.cursor() as cursor:
            cursor.execute(EVERY_LANGUAGE)
            return [language for (language,) in cursor.fetchall()]
    counted = Product.objects.live().filter(shop__in=shop_ids).order_by().values_list("language")
    return [language for language, _ in counted.annotate(products=Count("pk")).order_by("-products", "language")]


def category_languages(*, shop_ids: Sequence[int] | None) -> list[str]:
    """Those of the categories, where not of all shops, of those in which products of these stand."""
    shelves = SHELVES.objects.filter(product__shop__in=shop_ids or ()).values("category_id")
    categories = Category.objects.all() if shop_ids is None else Category.objects.filter(pk__in=shelves)
    return list(categories.order_by("language").values_list("language", flat=True).distinct())


def _changed_stars() -> "list[tuple[int, tuple[int, int]]]":
    """By product, the stars and reviews that wait to be folded."""
    rows = Entry.objects.filter(~Q(reviews=0) | ~Q(stars=0)).values_list("product_id")
    summed = rows.annotate(stars_more=Sum("stars"), reviews_more=Sum("reviews")).order_by()
    return [(pk, (stars, reviews)) for pk, stars, reviews in summed]


def _generation() -> int:
    return Books.objects.get(pk=1).generation


def _named(rows: Iterable[tuple[int, int, int]]) -> list[CategoryCount]:
    """Of category, shop and count; databases group by ids in half the time that they take with names beside them."""
    counts = list(rows)
    categories = dict(Category.objects.filter(pk__in={row[0] for row in counts}).values_list("pk", "name"))
    shops = dict(Shop.objects.filter(pk__in={row[1] for row in counts}).values_list("pk", "name"))
    return [
        CategoryCount(
            category_id=category,
            category_name=categories[category],
            shop_id=shop,
            shop_name=shops[shop],
            count=int(count),
        )
        for category, shop, count in counts
    ]
