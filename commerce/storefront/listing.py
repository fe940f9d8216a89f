"""The list of products of a page: the API's search, filters and facets, with a link for each choice."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, QueryDict

from commerce.catalog.facets import count_facets
from commerce.catalog.filters import ProductSearchFilters
from commerce.catalog.models import Product
from commerce.catalog.search.services import page_of_results, search_result_of
from commerce.storefront.cards import ProductCard
from shared.api.errors import ValidationFailed
from shared.api.query_params import parse_integer

PAGE_SIZE = 24
MAX_PAGE = 400
MAX_CHOICES = 12  # of a facet
KEPT = ("q", "language")  # parameters that are no filters


@dataclass(frozen=True)
class Choice:
    """A choice of a facet: a link that adds it to the query, or takes it out if it is chosen."""

    label: str
    count: int
    query: str
    is_chosen: bool


@dataclass(frozen=True)
class FacetGroup:
    name: str
    choices: list[Choice]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A page of products, with the facets of all pages."""

    text: str
    language: str
    cards: list[ProductCard]
    total: int
    facets: list[FacetGroup]
    corrections: list[str]
    is_semantic: bool
    is_filtered: bool
    clear_query: str
    previous_query: str
    next_query: str


def open_listing(request: HttpRequest) -> Listing:
    """Return the list that the query string asks for. Raises ValidationFailed."""
    query = request.GET
    filters = ProductSearchFilters(query, queryset=Product.objects.public().order_by("-pk"), request=request)
    if not filters.is_valid():
        raise ValidationFailed({name: [str(error) for error in found] for name, found in filters.errors.items()})
    products, result = filters.qs.for_response(), search_result_of(request)
    number = min(max(parse_integer(query.get("page", "")) or 1, 1), MAX_PAGE)
    rows, total = page_of_results(result, products, offset=(number - 1) * PAGE_SIZE, limit=PAGE_SIZE)
    text = query.get("q", "").strip()
    typed = text.lower()
    facets = count_facets(
        Product.objects.public(), query.dict(), request=request, is_public=True, filters=ProductSearchFilters
    )
    return Listing(
        text=text,
        language=query.get("language", ""),
        cards=[ProductCard(row, request, tuple(result.words)) for row in rows],
        total=total,
        facets=[group for group in _groups(facets, query) if group.choices],
        corrections=[word for word in result.words if word not in typed],
        is_semantic=result.is_semantic,
        is_filtered=any(query.get(name) for name in ProductSearchFilters.base_filters if name not in KEPT),
        clear_query=_query({name: query.get(name, "") for name in KEPT}),
        previous_query=_changed(query, page=str(number - 1)) if number > 1 else "",
        next_query=_changed(query, page=str(number + 1)) if number * PAGE_SIZE < total else "",
    )


def _groups(facets: Mapping[str, Any], query: QueryDict) -> Iterator[FacetGroup]:
    yield FacetGroup("Type", [_one(query, "type_id", row["id"], row["name"], row["count"]) for row in facets["types"]])
    rows = facets["categories"][:MAX_CHOICES]
    yield FacetGroup("Category", [_one(query, "category_id", row["id"], row["name"], row["count"]) for row in rows])
    yield FacetGroup("Price", [_price(query, row) for row in facets["prices"]])
    ratings = [_one(query, "rating_from", row["from"], _stars(row["from"]), row["count"]) for row in facets["ratings"]]
    yield FacetGroup("Rating", ratings)
    stock = [
        _one(query, "in_stock", int(row["value"]), "In stock" if row["value"] else "Sold out", row["count"])
        for row in facets["in_stock"]
    ]
    yield FacetGroup("Availability", stock)
    for attribute in facets["attributes"][:MAX_CHOICES]:
        values = attribute["values"][:MAX_CHOICES]
        yield FacetGroup(attribute["name"], [_value(query, row) for row in values])


def _one(query: QueryDict, name: str, value: int, label: str, count: int) -> Choice:
    is_chosen = query.get(name) == str(value)
    return Choice(label, count, _changed(query, **{name: "" if is_chosen else str(value)}), is_chosen)


def _price(query: QueryDict, row: Mapping[str, Any]) -> Choice:
    lowest, highest = f"{row['from']:g}", "" if row["to"] is None else f"{row['to']:g}"
    is_chosen = (query.get("price_from"), query.get("price_to", "")) == (lowest, highest)
    label = f"{lowest} to {highest} {settings.CURRENCY}" if highest else f"{lowest} {settings.CURRENCY} or more"
    bounds = {"price_from": "", "price_to": ""} if is_chosen else {"price_from": lowest, "price_to": highest}
    return Choice(label, row["count"], _changed(query, **bounds), is_chosen)


def _value(query: QueryDict, row: Mapping[str, Any]) -> Choice:
    chosen = [part for part in query.get("attribute_value_id", "").split(",") if part]
    value, is_chosen = str(row["id"]), str(row["id"]) in chosen
    values = [part for part in chosen if part != value] if is_chosen else [*chosen, value]
    return Choice(row["value"], row["count"], _changed(query, attribute_value_id=",".join(values)), is_chosen)


def _stars(count: int) -> str:
    return f"{count} stars or more" if count > 1 else "1 star or more"


def _changed(query: QueryDict, **values: str) -> str:
    """Return the query string with other values; a change of a filter begins at the first page."""
    kept = {name: query.get(name, "") for name in query if name != "page"}
    return _query(kept | values)


def _query(values: Mapping[str, str]) -> str:
    query = QueryDict(mutable=True)
    query.update({name: value for name, value in values.items() if value})
    return f"?{query.urlencode()}"
