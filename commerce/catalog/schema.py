"""OpenAPI texts of the routes of products, product types, categories and tags."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view

from commerce.catalog.search.services import page_of_results, search_result_of
from commerce.catalog.serializers import FoundProductSerializer, ProductSerializer
from shared.api.lists.pagination import PagePagination, limit_parameter
from shared.api.lists.search import MAX_SEARCH_LENGTH
from shared.api.query_params import DEFAULT_LANGUAGE, MAX_LANGUAGE_LENGTH

PRODUCT_TAGS = ["Products"]
SHOP_STAFF_ONLY = (
    "Only the owner and the staff of the product's shop and super admins may call this; others get 403 or 404."
)
SUPER_ADMIN_ONLY = "Only super admins may call this."
CHANGE_PRODUCT = (
    "Changes the fields that you send and returns the product. `variations`, `gallery`, `categories` and `tags` "
    "replace the whole list; `variation_options` changes, adds and removes the variations that it names. The slug, the "
    "language and the shop never change. Returns 422 for a status that shops may not set, and for a variation that "
    "combines other values than those in `variations`."
)

FACETS_PARAMETER = {
    "name": "facets",
    "in": "query",
    "description": "`1` to add `facets` to the page: how many products each choice of a filter would leave.",
    "schema": {"type": "boolean", "default": False, "example": True},
}


def _entries(description: str, **examples: Any) -> dict[str, Any]:
    """Return the schema of a facet: an array of objects with these fields, each an example and a description."""
    properties = {}
    for name, (example, text) in examples.items():
        kind = {bool: "boolean", int: "integer", float: "number", str: "string"}[type(example)]
        properties[name] = {"type": kind, "description": text, "example": example}
    return {
        "type": "array",
        "description": description,
        "items": {"type": "object", "properties": properties, "required": list(properties)},
    }


_COUNT = (12, "Number of products.")
_ID, _NAME, _SLUG = (7, "Id."), ("Kitchen", "Name."), ("kitchen", "Name in URLs.")
_VALUES = _entries(
    "Values of the attribute.",
    id=_ID,
    value=("Red", "Text of the value."),
    meta=("#ff0000", "Free text that belongs to the value."),
    slug=("red", "The value in lower case with hyphens."),
    count=_COUNT,
)
_ATTRIBUTES = _entries(
    "By value of an attribute; choose one by `attribute_value_id`.", id=_ID, name=("Color", "Name."), slug=_SLUG
)
_ATTRIBUTES["items"]["properties"]["values"] = _VALUES
_ATTRIBUTES["items"]["required"].append("values")
_CATEGORIES = _entries(
    "By category; choose one by `category_id`.", id=_ID, name=_NAME, slug=_SLUG,
    parent_id=(3, "Id of the category above."), count=_COUNT,
)  # fmt: skip
_CATEGORIES["items"]["properties"]["parent_id"]["type"] = ["integer", "null"]
_PRICES = _entries(
    "By lowest price; choose a band by `price_from` and `price_to`.",
    **{
        "from": (10.0, "Least price of the band, in major units."),
        "to": (25.0, "Price at which the next band begins; null for the last one."),
        "currency": ("EUR", "Currency of the platform. Products in others are in no band."),
        "count": _COUNT,
    },
)
_PRICES["items"]["properties"]["to"]["type"] = ["number", "null"]
FACETS = {
    "types": _entries("By product type; choose one by `type_id`.", id=_ID, name=_NAME, slug=_SLUG, count=_COUNT),
    "categories": _CATEGORIES,
    "attributes": _ATTRIBUTES,
    "prices": _PRICES,
    "ratings": _entries(
        "By average rating; choose one by `rating_from`.", **{"from": (4, "Least rating."), "count": _COUNT}
    ),
    "in_stock": _entries(
        "By whether they are in stock; choose by `in_stock`.", value=(True, "Whether in stock."), count=_COUNT
    ),
}
FACETS_SCHEMA = {
    "type": "object",
    "description": "Numbers of products by choice, each as if its own filter were off. Only with `facets=1`.",
    "properties": FACETS,
    "required": list(FACETS),
}


class ManagedProductPagination(PagePagination):
    """Pages of products, which have up to a hundred variations each."""

    is_limited_by_size = True


class ProductPagination(ManagedProductPagination):
    """Pages of products, which may have facets. The best of a search are first."""

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any]:
        self.result = search_result_of(request)
        return super().paginate_queryset(queryset, request, view)

    def read_rows(self, queryset: Any, offset: int) -> tuple[list[Any], int]:
        if not self.result.is_ranking:
            return super().read_rows(queryset, offset)
        return page_of_results(self.result, queryset, offset=offset, limit=self.limit)

    def get_paginated_response_schema(self, schema: Any) -> dict[str, Any]:
        page = super().get_paginated_response_schema(schema)
        return page | {"properties": page["properties"] | {"facets": FACETS_SCHEMA}}

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [*super().get_schema_operation_parameters(view), FACETS_PARAMETER]


LIMIT = limit_parameter(10)
SUGGEST_PARAMETERS = [
    OpenApiParameter(
        "q",
        {"type": "string", "maxLength": MAX_SEARCH_LENGTH, "example": "cof"},
        description="What was typed; the last word may be unfinished. Without words there are no suggestions.",
    ),
    OpenApiParameter(
        "language",
        {"type": "string", "maxLength": MAX_LANGUAGE_LENGTH, "default": DEFAULT_LANGUAGE, "example": "de"},
        description="Code of the language.",
    ),
]

describe_products = extend_schema_view(
    search=extend_schema(
        operation_id="search_products",
        tags=PRODUCT_TAGS,
        summary="Search for products",
        description="Returns a page of published products that match the text `q`, the best first. Words are "
        "compared by their stems and misspelled ones are corrected; a word in the name counts more than one in the "
        "description or the shop's name. Products near in meaning are found without a common word, unless "
        "`search.semantic` is false. A search looks at the 1,000 best products, which the other parameters narrow. "
        "With `facets=1` the page has `facets` of those products. No credentials are needed. "
        "`highlight` is safe HTML. Without `q` it is the list of products. "
        f"Returns 422 if `q` has more than {MAX_SEARCH_LENGTH} characters.",
        responses=FoundProductSerializer(many=True),
    ),
    suggest=extend_schema(
        operation_id="suggest_products",
        tags=PRODUCT_TAGS,
        summary="Suggest products while typing",
        description="Returns up to ten published products whose names have the words of `q`, those that begin with "
        "it first. No credentials are needed.",
        parameters=SUGGEST_PARAMETERS,
    ),
    similar=extend_schema(
        operation_id="similar_products",
        tags=PRODUCT_TAGS,
        summary="List similar products",
        description="Returns an array of published products that resemble a product in meaning, the most similar "
        "first: ten, or `limit`, and at most 100. Products that are not embedded yet have the newest of their type. No "
        "credentials are needed. Returns 404 for a product that you may not see.",
        parameters=[OpenApiParameter("limit", LIMIT["schema"], description=LIMIT["description"])],
        responses=ProductSerializer(many=True),
    ),
    list=extend_schema(
        operation_id="products",
        tags=PRODUCT_TAGS,
        summary="List products",
        description="Returns a page of published products of active shops, newest first, in one language. No "
        "credentials are needed. With `shop_id`, the owner and the staff of that shop get its products in any status. "
        "With `facets=1` the page has `facets`, which are counted over all pages; stock and ratings in them may be "
        "half a minute old.",
    ),
    create=extend_schema(
        operation_id="create_product",
        tags=PRODUCT_TAGS,
        summary="Add a product to a shop",
        description="Creates a product and returns it. Store owners and staff may call this for their own shops, "
        "super admins for any shop; another shop is 403. A variable product takes its quantity and prices from its "
        "variations: `variations` lists the attribute values in which they differ, and `variation_options` has in "
        "`upsert` a variation for each combination. Returns 422 if a field is invalid, if a type, category, tag, value "
        "or image does not exist, or if you did not upload the image.",
    ),
    retrieve=extend_schema(
        operation_id="product",
        tags=PRODUCT_TAGS,
        summary="Get a product",
        description="Returns one product, found by its id, or by its slug and `language`. Without a "
        "`language` the English one comes first. No credentials are needed. "
        "Products that are not published or whose shop is inactive are 404, except for the owner and staff of the "
        "shop.",
    ),
    update=extend_schema(
        operation_id="change_product",
        tags=PRODUCT_TAGS,
        summary="Change a product",
        description=f"{CHANGE_PRODUCT} {SHOP_STAFF_ONLY}",
    ),
    destroy=extend_schema(
        operation_id="delete_product",
        tags=PRODUCT_TAGS,
        summary="Delete a product",
        description="Removes the product from every list and returns it as it was. Orders that contain it keep it. "
        f"{SHOP_STAFF_ONLY}",
    ),
)

describe_low_stock = extend_schema_view(
    list=extend_schema(
        operation_id="low_stock",
        tags=["Analytics"],
        summary="List products that are low on stock",
        description="Returns the products that have fewer than 10 pieces in stock, or a variation that has, the "
        "lowest quantity first. Store owners and staff get those of their own shops, super admins those of all "
        "shops; other users get 403. The response has an `ETag`: send it as `If-None-Match` to get 304 if nothing has "
        "changed.",
    )
)

describe_stock = extend_schema_view(
    list=extend_schema(
        operation_id="products_stock",
        tags=PRODUCT_TAGS,
        summary="List low-stock products in pages",
        description="Returns a page of the products that `GET /api/low-stock-products` lists: those with fewer than 10 "
        "pieces in stock, or with such a variation, the lowest quantity first. Store owners and staff get those of "
        "their own shops, super admins those of all shops; other users get 403.",
    )
)

describe_drafts = extend_schema_view(
    list=extend_schema(
        operation_id="unpublished_products",
        tags=PRODUCT_TAGS,
        summary="List products that are not published",
        description="Returns a page of the products in any status but `publish`, the newest first; "
        "`search=status:draft` selects one status. Store owners and staff get those of their own shops, super admins "
        "those of all shops; other users get 403.",
    )
)

BEST_SELLING = (
    "Returns an array of published products of active shops in one language: ten, or `limit`, those of which the most "
    "pieces were sold first. Pieces of cancelled, failed and refunded orders do not count. No credentials are needed."
)
describe_best_selling = extend_schema_view(
    list=extend_schema(
        operation_id="best_selling_products",
        tags=PRODUCT_TAGS,
        summary="List best-selling products",
        description=BEST_SELLING,
    )
)
describe_popular = extend_schema_view(
    list=extend_schema(
        operation_id="popular_products",
        tags=PRODUCT_TAGS,
        summary="List popular products",
        description=f"Does what `GET /api/best-selling-products` does. {BEST_SELLING}",
    )
)


def _describe_taxonomy(*, singular: str, plural: str, tag: str, deletion: str, list_shape: str) -> Any:
    """Return the texts of the routes of product types, categories or tags, which differ in their nouns only."""
    noun = "product type" if singular == "type" else singular
    return extend_schema_view(
        list=extend_schema(
            operation_id=plural,
            tags=[tag],
            summary=f"List {noun}s" if singular == "type" else f"List {plural}",
            description=f"Returns {list_shape} in one language, the oldest first. No credentials are needed.",
        ),
        create=extend_schema(
            operation_id=f"create_{singular}",
            tags=[tag],
            summary=f"Create a {noun}",
            description=f"Creates a {noun} in one language and returns it. {SUPER_ADMIN_ONLY}",
        ),
        retrieve=extend_schema(
            operation_id=singular,
            tags=[tag],
            summary=f"Get a {noun}",
            description=f"Returns one {noun}, found by its id, or by its slug and `language`. No credentials are "
            "needed.",
        ),
        update=extend_schema(
            operation_id=f"change_{singular}",
            tags=[tag],
            summary=f"Change a {noun}",
            description=f"Changes the fields that you send and returns the {noun}. The slug and the language never "
            f"change. {SUPER_ADMIN_ONLY}",
        ),
        destroy=extend_schema(
            operation_id=f"delete_{singular}",
            tags=[tag],
            summary=f"Delete a {noun}",
            description=f"Deletes the {noun} and returns it as it was. {deletion} {SUPER_ADMIN_ONLY}",
        ),
    )


describe_types = _describe_taxonomy(
    singular="type",
    plural="types",
    tag="Types",
    deletion="Returns 409 while it has categories or products.",
    list_shape="an array of the product types",
)
describe_categories = _describe_taxonomy(
    singular="category",
    plural="categories",
    tag="Categories",
    deletion="Returns 409 while it has products or categories below it.",
    list_shape="a page of the categories, each with all categories below it in `children`; with `parent=null` those at "
    "the top, with `parent=7` those directly below category 7,",
)
describe_tags = _describe_taxonomy(
    singular="tag",
    plural="tags",
    tag="Tags",
    deletion="Products lose it.",
    list_shape="a page of the tags",
)
