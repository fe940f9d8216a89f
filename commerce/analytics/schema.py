"""OpenAPI descriptions of the analytics operations."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema

from commerce.analytics.reports.date_ranges import MAX_DATE, MIN_DATE
from commerce.analytics.serializers import (
    AttributeSalesListSerializer,
    CategoryProductsSerializer,
    CategorySalesSerializer,
    OverviewSerializer,
    TopCustomersSerializer,
    TopProductsSerializer,
    TopRatedSerializer,
)
from commerce.catalog.filters import ProductFilters
from shared.api.lists.schema import search_parameters
from shared.api.query_params import DEFAULT_LANGUAGE, MAX_INTEGER, MAX_LANGUAGE_LENGTH, MAX_LIMIT

ACCESS = (
    "Super admins read the whole platform, shop owners and staff their own shops; customers get 403. A shop that does "
    "not exist or that you may not read is 404, an invalid parameter 422. Send the `ETag` of an earlier response as "
    "`If-None-Match` to get 304 while nothing has changed."
)


def _parameter(name: str, schema: dict[str, Any], description: str, example: str | int) -> OpenApiParameter:
    return OpenApiParameter(name, schema | {"example": example}, description=description)


def _date(name: str, description: str, example: str) -> OpenApiParameter:
    bounds = f"A date from {MIN_DATE} to {MAX_DATE}"
    return _parameter(name, {"type": "string", "format": "date"}, f"{description} {bounds}.", example)


def _limit(default: int) -> OpenApiParameter:
    schema = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": default}
    description = f"Maximum number of rows. More than {MAX_LIMIT} means {MAX_LIMIT}."
    return _parameter("limit", schema, description, default)


SHOP_ID = _parameter(
    "shop_id",
    {"type": "integer", "format": "int64", "minimum": 1, "maximum": MAX_INTEGER},
    "Id of the one shop to read. Default: all that you may read.",
    7,
)
CURRENCY_SCHEMA = {"type": "string", "pattern": "^[A-Z]{3}$"}
CURRENCY = _parameter(
    "currency",
    CURRENCY_SCHEMA,
    "ISO 4217 code; only orders in this currency count. Default: all currencies.",
    "EUR",
)
LANGUAGE = _parameter(
    "language",
    {"type": "string", "maxLength": MAX_LANGUAGE_LENGTH, "default": DEFAULT_LANGUAGE},
    "Language code of the categories or products.",
    "en",
)
SEARCH = [
    OpenApiParameter(parameter["name"], parameter["schema"], description=parameter["description"])
    for parameter in search_parameters(list(ProductFilters.search_fields))
]

REPORT_CURRENCY = _parameter(
    "currency",
    CURRENCY_SCHEMA,
    "ISO 4217 code; only orders in this currency count. Default: the platform's currency.",
    "EUR",
)
SALES_REPORT = (
    "The figures are of all time, from a sales report that is computed in the background: `as_of` says when. For few "
    "orders that is usually at most ten seconds ago, for more some minutes."
)

overview = extend_schema(
    operation_id="analytics",
    tags=["Analytics"],
    summary="Read sales totals",
    description="Returns revenue, refunds, orders and new customers. `from` and `to` limit the totals and the new "
    "customers; the figures of today, of the last 7, 30 and 365 days and of this year's months are always included. "
    "Placed revenue, returning customers and the average order value of shops are computed in the background; `asOf` "
    f"says when. {ACCESS}",
    parameters=[
        _date("from", "First day of the totals. Default: the first day of all.", "2026-01-01"),
        _date("to", "Last day of the totals. Default: today.", "2026-01-31"),
        SHOP_ID,
        REPORT_CURRENCY,
        _parameter(
            "compare",
            {"type": "string", "enum": ["previous"]},
            "`previous` also returns the totals of as many days before `from`, and needs `from`.",
            "previous",
        ),
    ],
    responses=OverviewSerializer,
)
category_products = extend_schema(
    operation_id="category_products",
    tags=["Analytics"],
    summary="Count products by category",
    description="Returns the number of products of each shop in each category, largest first. Deleted products do not "
    f"count. {ACCESS}",
    parameters=[_limit(15), LANGUAGE, SHOP_ID, *SEARCH],
    responses=CategoryProductsSerializer(many=True),
)
category_sales = extend_schema(
    operation_id="category_sales",
    tags=["Analytics"],
    summary="Sum sales by category",
    description="Returns the units sold in complete orders of all time and their revenue, by category and shop, most "
    f"units first. A product in several categories counts in each. {ACCESS}",
    parameters=[_limit(15), LANGUAGE, SHOP_ID, CURRENCY, *SEARCH],
    responses=CategorySalesSerializer(many=True),
)
top_rated = extend_schema(
    operation_id="top_rated",
    tags=["Analytics"],
    summary="List the top rated products",
    description="Returns the products with the best average of stars, then with the most reviews. Hidden and deleted "
    f"reviews do not count. {ACCESS}",
    parameters=[_limit(10), LANGUAGE, SHOP_ID, *SEARCH],
    responses=TopRatedSerializer(many=True),
)
top_customers = extend_schema(
    operation_id="top_customers",
    tags=["Analytics"],
    summary="List the customers with the most revenue",
    description="Returns the customers by the revenue of their complete orders, highest first. "
    f"{SALES_REPORT} {ACCESS}",
    parameters=[_limit(10), SHOP_ID, REPORT_CURRENCY],
    responses=TopCustomersSerializer,
)
top_products = extend_schema(
    operation_id="top_products",
    tags=["Analytics"],
    summary="List the products with the most revenue",
    description="Returns the products of a language by the revenue of their units in complete orders, highest first. "
    f"Deleted products count. {SALES_REPORT} {ACCESS}",
    parameters=[_limit(10), LANGUAGE, SHOP_ID, REPORT_CURRENCY],
    responses=TopProductsSerializer,
)
attribute_sales = extend_schema(
    operation_id="attribute_sales",
    tags=["Analytics"],
    summary="Sum sales by attribute value",
    description="Returns the values of attributes by the revenue of the variations that have them, in complete orders, "
    "highest first. A variation counts for each of its values as they are at `as_of`; products without variations do "
    f"not count. {SALES_REPORT} {ACCESS}",
    parameters=[_limit(10), LANGUAGE, SHOP_ID, REPORT_CURRENCY],
    responses=AttributeSalesListSerializer,
)
