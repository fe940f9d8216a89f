"""Facets of a list of products: how many products each choice of a filter would leave.

Each facet is counted as if its own filter were off, so that a shopper sees what else they could choose.

    count_facets(Product.objects.public(), request.query_params, request=request)

`products` may be any queryset of products: the filters of `ProductFilters` in `query` are applied to it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from django.conf import settings
from django.db.models import Case, Count, F, IntegerField, QuerySet, Value, When
from django.http import HttpRequest
from rest_framework.request import Request

from commerce.attributes.models import AttributeValue
from commerce.catalog.filters import ProductFilters, attributes_of_values, group_by_attribute
from commerce.catalog.models import Category, Product, ProductType, ProductValue
from commerce.catalog.search.facet_columns import Mask, ProductColumns, columns_of
from shared.api.errors import ValidationFailed
from shared.api.limits.query_limits import MAX_QUERY_SECONDS, QueryTimeout, limit_query_time
from shared.api.money import to_number
from shared.api.query_params import DEFAULT_LANGUAGE

# Lower bounds of the bands, in minor units of the platform's currency: 10 euro or 1,000 yen, and so on.
PRICE_BANDS = (0, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000)
RATINGS = (4, 3, 2, 1)
MAX_ENTRIES = 200  # of a facet: those with the most products
MAX_CHOSEN_ATTRIBUTES = 10  # each is counted by a query of its own

# By facet: the query parameters and the fields of `search` that are its own filter.
OWN_PARAMETERS: Mapping[str, frozenset[str]] = {
    "types": frozenset({"type_id"}),
    "categories": frozenset({"category_id"}),
    "prices": frozenset({"price_from", "price_to"}),
    "ratings": frozenset({"rating_from"}),
    "in_stock": frozenset({"in_stock"}),
}
OWN_SEARCH_FIELDS: Mapping[str, frozenset[str]] = {
    "types": frozenset({"type_id", "type.slug"}),
    "categories": frozenset({"categories.slug"}),
    "prices": frozenset({"price", "sale_price", "min_price", "max_price"}),
    "ratings": frozenset({"ratings"}),
    "in_stock": frozenset({"quantity", "in_stock"}),
}
_COLUMN_FACETS = ("types", "prices", "ratings", "in_stock")
_SEARCH_PARAMETERS = ("search", "searchJoin", "searchFields")

Query = tuple[tuple[str, str], ...]  # sorted, and without parameters that filter nothing
Counts = dict[str, Counter[Any]]  # by facet, by choice


def count_facets(
    products: "QuerySet[Product]",
    query: Mapping[str, str],
    *,
    request: Request | HttpRequest | None = None,
    is_public: bool = False,
    filters: type[ProductFilters] = ProductFilters,
) -> dict[str, list[dict[str, Any]]]:
    """Return the facets of `products`, filtered by `query`. A search for text needs the request.

    `is_public` says that `products` are all that everybody may see. They are counted in memory, where stock and ratings
    may be MAX_AGE_SECONDS old. Raises ValidationFailed for an invalid filter, and if counting takes too long.
    """
    counter_class = _ColumnCounter if is_public else _DatabaseCounter
    counter = counter_class(products, filters, request)
    active = _active_filters(filters, query)
    counter.require_valid(active)
    wanted: dict[Query, set[str]] = {}
    for facet in (*_COLUMN_FACETS, "categories", "attributes"):
        wanted.setdefault(_without(active, facet), set()).add(facet)
    try:
        with limit_query_time(MAX_QUERY_SECONDS):
            counts: Counts = {}
            for reduced, facets in wanted.items():
                found = counter.count(reduced, facets)
                counts |= {facet: found[facet] for facet in facets}
            _recount_chosen_attributes(counter, active, counts["attributes"])
    except QueryTimeout:
        message = f"Counting these products takes more than {MAX_QUERY_SECONDS:g} seconds. Add another filter."
        raise ValidationFailed({"facets": [message]}) from None
    return _represent(counts)


class _DatabaseCounter:
    """Counts of choices among the products that a query leaves, by the database."""

    def __init__(
        self, products: "QuerySet[Product]", filters: type[ProductFilters], request: Request | HttpRequest | None
    ) -> None:
        self._products, self._filters, self._request = products, filters, request

    def count(self, query: Query, facets: Iterable[str]) -> Counts:
        columns = [facet for facet in _COLUMN_FACETS if facet in facets]
        counts = self._count_columns(query, columns) if columns else {}
        if "categories" in facets:
            links: QuerySet[Any] = Product.categories.through._default_manager.filter(
                product__in=self.filtered(query).values("pk")
            )
            rows = links.values_list("category").annotate(count=Count("pk")).order_by("-count", "category")
            counts["categories"] = Counter(dict(rows[:MAX_ENTRIES]))
        if "attributes" in facets:
            counts["attributes"] = self.values_of(query)
        return counts

    def values_of(self, query: Query, attribute_id: int | None = None) -> Counter[int]:
        """Count the products by attribute value, or by the values of one attribute."""
        links = ProductValue.objects.filter(product__in=self.filtered(query).values("pk")).order_by()
        if attribute_id is not None:
            links = links.filter(value__attribute=attribute_id)
        rows = links.values_list("value").annotate(count=Count("pk")).order_by("-count", "value")
        return Counter(dict(rows[:MAX_ENTRIES]))

    def _count_columns(self, query: Query, facets: list[str]) -> Counts:
        """Count by columns of the product in one query: one row for each combination of choices."""
        groups = {f"{facet}_choice": expression for facet, expression in _column_choices().items() if facet in facets}
        rows: Iterable[Any] = self.filtered(query).values(**groups).annotate(count=Count("pk"))
        counts: Counts = {facet: Counter() for facet in facets}
        for row in rows:
            for facet in facets:
                counts[facet][row[f"{facet}_choice"]] += row["count"]
        return counts

    def require_valid(self, query: Query) -> ProductFilters:
        """Return the filters of a query. Raises ValidationFailed."""
        filters = self._filters(dict(query), queryset=self._products, request=self._request)
        if not filters.is_valid():
            raise ValidationFailed({name: [str(error) for error in found] for name, found in filters.errors.items()})
        return filters

    def filtered(self, query: Query) -> "QuerySet[Product]":
        rows: QuerySet[Product] = self.require_valid(query).qs
        return rows.select_related(None).prefetch_related(None).order_by()


class _ColumnCounter(_DatabaseCounter):
    """Counts among the products that everybody may see, by the columns in memory.

    The database finds the products only for filters that the columns do not have.
    """

    def __init__(
        self, products: "QuerySet[Product]", filters: type[ProductFilters], request: Request | HttpRequest | None
    ) -> None:
        super().__init__(products, filters, request)
        self._columns: ProductColumns | None = None
        self._found: dict[Query, Mask] = {}

    def count(self, query: Query, facets: Iterable[str]) -> Counts:
        columns, chosen = self._choose(query)
        prices, ratings = columns.prices[chosen], columns.ratings[chosen]
        counts: Counts = {}
        if "types" in facets:
            counts["types"] = columns.types.count(chosen)
        if "prices" in facets:
            counts["prices"] = _count_steps(prices, PRICE_BANDS)
        if "ratings" in facets:
            counts["ratings"] = _count_steps(ratings, (0, *reversed(RATINGS)))
        if "in_stock" in facets:
            in_stock = int(np.count_nonzero(columns.quantities[chosen] > 0))
            counts["in_stock"] = Counter({1: in_stock, 0: int(np.count_nonzero(chosen)) - in_stock})
        if "categories" in facets:
            counts["categories"] = columns.categories.count(chosen)
        if "attributes" in facets:
            counts["attributes"] = columns.values.count(chosen)
        return counts

    def values_of(self, query: Query, attribute_id: int | None = None) -> Counter[int]:
        columns, chosen = self._choose(query)
        counts = columns.values.count(chosen)
        own = AttributeValue.objects.filter(attribute=attribute_id).values_list("pk", flat=True)
        return Counter({pk: counts[pk] for pk in own if pk in counts})

    def _choose(self, query: Query) -> tuple[ProductColumns, Mask]:
        """Return the columns, and which of their products the query leaves."""
        if self._columns is None:
            language = dict(query).get("language") or DEFAULT_LANGUAGE
            self._columns = columns_of(language).current()
        chosen = np.ones(len(self._columns), np.bool_)
        for name, value in query:
            if name in _MASKS:
                chosen = chosen & self._mask(self._columns, ((name, value),))
        others = tuple((name, value) for name, value in query if name not in _MASKS)
        slugs, others = _split_slugs(others)
        for name, slug in slugs:
            chosen = chosen & self._mask(self._columns, ((name, slug),))
        if any(name != "language" for name, _ in others):
            chosen = chosen & self._mask(self._columns, others)
        return self._columns, chosen

    def _mask(self, columns: ProductColumns, query: Query) -> Mask:
        """Return which products a query of one parameter of the columns, or of others only, leaves."""
        if query not in self._found:
            name, value = query[0]
            if name in _MASKS:
                cleaned = self._filters.base_filters[name].field.clean(value)
                mask = _MASKS[name](columns, cleaned)
            elif name in _SLUG_MASKS:
                mask = _SLUG_MASKS[name](columns, value)
            else:
                ids = self.require_valid(query).ids_of_text()
                mask = columns.with_ids(self.filtered(query).values_list("pk", flat=True) if ids is None else ids)
            self._found[query] = mask
        return self._found[query]


def _count_steps(values: "np.ndarray[Any, Any]", bounds: Sequence[int]) -> Counter[Any]:
    """Count values by the highest of the ascending bounds that they reach; None if they reach none."""
    counts = np.bincount(np.searchsorted(bounds, values, side="right"), minlength=len(bounds) + 1).tolist()
    return Counter({bound: count for bound, count in zip([None, *bounds], counts, strict=True) if count})


def _values_mask(columns: ProductColumns, value_ids: Sequence[int]) -> Mask:
    chosen = np.ones(len(columns), np.bool_)
    for of_attribute in group_by_attribute(value_ids).values() if value_ids else ():
        chosen &= columns.linked_to(columns.values, of_attribute)
    return chosen


# By filter of ProductFilters: which products its value leaves.
_MASKS: Mapping[str, Callable[[ProductColumns, Any], Mask]] = {
    "shop_id": lambda columns, shop_id: columns.shops == shop_id,
    "type_id": lambda columns, type_id: columns.types.within([type_id]),
    "category_id": lambda columns, category_id: columns.linked_to(columns.categories, [category_id]),
    "attribute_value_id": _values_mask,
    "price_from": lambda columns, lowest: columns.prices >= max(lowest, 0),
    "price_to": lambda columns, limit: (columns.prices >= 0) & (columns.prices < limit),
    "rating_from": lambda columns, rating: columns.ratings >= rating,
    "in_stock": lambda columns, in_stock: (columns.quantities > 0) == in_stock,
}


# By field of `search`: which products have the type or a category with this slug.
_SLUG_MASKS: Mapping[str, Callable[[ProductColumns, str], Mask]] = {
    "type.slug": lambda columns, slug: columns.types.within(_ids_of_slug(ProductType, slug)),
    "categories.slug": lambda columns, slug: columns.linked_to(columns.categories, _ids_of_slug(Category, slug)),
}


def _ids_of_slug(model: type[ProductType] | type[Category], slug: str) -> list[int]:
    return list(model._base_manager.filter(slug=slug).values_list("pk", flat=True))


def _split_slugs(query: Query) -> tuple[list[tuple[str, str]], Query]:
    """Return the terms of `search` that are in _SLUG_MASKS, and the query without them.

    They stay in the search where they would in `_without`, and if it says how to compare them.
    """
    kept = dict(query)
    terms = [term for term in kept.get("search", "").split(";") if _is_filter(term)]
    if "searchFields" in kept or (len(terms) > 1 and kept.get("searchJoin", "").lower() != "and"):
        return [], query
    named = {term: tuple(part.strip() for part in term.split(":", 1)) for term in terms if "\0" not in term}
    slugs = {term: (name, slug) for term, (name, *rest) in named.items() if name in _SLUG_MASKS for slug in rest}
    others = [term for term in terms if term not in slugs]
    if others and all(":" not in term for term in others):
        return [], query
    kept["search"] = ";".join(others)
    if not others:
        kept = {name: value for name, value in kept.items() if name not in _SEARCH_PARAMETERS}
    return list(slugs.values()), tuple(sorted(kept.items()))


def _column_choices() -> dict[str, Any]:
    """Return the choice of a product in each facet of its own columns; a price in another currency is in no band."""
    bands = [
        When(currency=settings.CURRENCY, min_price__gte=lowest, then=Value(lowest)) for lowest in reversed(PRICE_BANDS)
    ]
    return {
        "types": F("type_id"),
        "prices": Case(*bands, default=None, output_field=IntegerField()),
        "ratings": Case(
            *(When(ratings__gte=rating, then=Value(rating)) for rating in RATINGS),
            default=0,
            output_field=IntegerField(),
        ),
        "in_stock": Case(When(quantity__gt=0, then=Value(1)), default=Value(0), output_field=IntegerField()),
    }


def _recount_chosen_attributes(counter: _DatabaseCounter, active: Query, counts: Counter[int]) -> None:
    """Replace the counts of the attributes that the query chooses values of, each as if its own were not chosen."""
    chosen = attributes_of_values(dict(active).get("attribute_value_id", ""))
    if not chosen:
        return
    if len(chosen) > MAX_CHOSEN_ATTRIBUTES:
        message = f"With facets, send values of at most {MAX_CHOSEN_ATTRIBUTES} attributes."
        raise ValidationFailed({"attribute_value_id": [message]})
    own_values = AttributeValue.objects.filter(attribute__in=chosen).values_list("pk", flat=True)
    for value_id in set(own_values) & counts.keys():
        del counts[value_id]
    for attribute_id in chosen:
        others = [str(pk) for other, value_ids in chosen.items() if other != attribute_id for pk in value_ids]
        reduced = _with_parameter(active, "attribute_value_id", ",".join(others))
        counts |= counter.values_of(reduced, attribute_id)


def _active_filters(filters: type[ProductFilters], query: Mapping[str, str]) -> Query:
    names = (*filters.base_filters, *_SEARCH_PARAMETERS)
    return tuple(sorted((name, query[name]) for name in names if query.get(name)))


def _without(query: Query, facet: str) -> Query:
    """Return the query without the facet's own filter.

    Terms of a search that products may match by any one of several are one condition, which stays. So do those that
    would leave a word without a field, which is searched for in another way.
    """
    kept = {name: value for name, value in query if name not in OWN_PARAMETERS.get(facet, ())}
    terms = [term for term in kept.get("search", "").split(";") if _is_filter(term)]
    own = OWN_SEARCH_FIELDS.get(facet, frozenset())
    others = [term for term in terms if ":" not in term or term.partition(":")[0].strip() not in own]
    is_text = bool(others) and all(":" not in term for term in others)
    if len(others) < len(terms) and not is_text and (len(terms) == 1 or kept.get("searchJoin", "").lower() == "and"):
        kept["search"] = ";".join(others)
        if not others:
            kept = {name: value for name, value in kept.items() if name not in _SEARCH_PARAMETERS}
    return tuple(sorted(kept.items()))


def _is_filter(term: str) -> bool:
    """Return whether the term of a search is one that the list uses."""
    name, separator, value = term.partition(":")
    return bool(value.strip()) and name.strip() in ProductFilters.search_fields if separator else bool(name.strip())


def _with_parameter(query: Query, name: str, value: str) -> Query:
    kept = {other: text for other, text in query if other != name} | ({name: value} if value else {})
    return tuple(sorted(kept.items()))


def _represent(counts: Counts) -> dict[str, list[dict[str, Any]]]:
    """Return the facets with their names. Choices without products are left out."""
    counts = counts | {facet: Counter(dict(_ordered(counts[facet]))) for facet in ("types", "categories", "attributes")}
    types = ProductType.objects.in_bulk(list(counts["types"]))
    categories = Category.objects.in_bulk(list(counts["categories"]))
    return {
        "types": [
            {"id": row.pk, "name": row.name, "slug": row.slug, "count": count}
            for row, count in ((types[pk], count) for pk, count in _ordered(counts["types"]) if pk in types)
        ],
        "categories": [
            {"id": row.pk, "name": row.name, "slug": row.slug, "parent_id": row.parent_id, "count": count}
            for row, count in ((categories[pk], n) for pk, n in _ordered(counts["categories"]) if pk in categories)
        ],
        "attributes": _represent_attributes(counts["attributes"]),
        "prices": [
            {
                "from": to_number(lowest, settings.CURRENCY),
                "to": None if highest is None else to_number(highest, settings.CURRENCY),
                "currency": settings.CURRENCY,
                "count": counts["prices"][lowest],
            }
            for lowest, highest in zip(PRICE_BANDS, (*PRICE_BANDS[1:], None), strict=True)
            if counts["prices"][lowest]
        ],
        "ratings": [
            {"from": rating, "count": count}
            for rating in RATINGS
            if (count := sum(number for stars, number in counts["ratings"].items() if stars >= rating))
        ],
        "in_stock": [
            {"value": bool(value), "count": counts["in_stock"][value]} for value in (1, 0) if counts["in_stock"][value]
        ],
    }


def _represent_attributes(counts: Counter[int]) -> list[dict[str, Any]]:
    values = AttributeValue.objects.select_related("attribute").in_bulk(list(counts))
    attributes: dict[int, dict[str, Any]] = {}
    for value_id, count in _ordered(counts):
        if value_id in values:
            value = values[value_id]
            head = {"id": value.attribute_id, "name": value.attribute.name, "slug": value.attribute.slug, "values": []}
            entry = {"id": value.pk, "value": value.value, "meta": value.meta, "slug": value.slug, "count": count}
            attributes.setdefault(value.attribute_id, head)["values"].append(entry)
    return list(attributes.values())


def _ordered(counts: Counter[int]) -> list[tuple[int, int]]:
    """Return the choices with the most products first."""
    return sorted(counts.items(), key=lambda choice: (-choice[1], choice[0]))[:MAX_ENTRIES]
