"""OpenAPI texts of the routes of products, product types and categories."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view

from commerce.catalog.serializers import FoundProductSerializer
from shared.api.lists.search import MAX_SEARCH_LENGTH
from shared.api.query_params import DEFAULT_LANGUAGE, MAX_LANGUAGE_LENGTH

PRODUCT_TAGS = ["Products"]
SHOP_STAFF_ONLY = (
    "Only the owner and the staff of the product's shop and super admins may call this; others get 403 or 404."
)
SUPER_ADMIN_ONLY = "Only super admins may call this."

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
        "description or the shop's name. A search looks at the 1,000 best products, which the other parameters "
        "narrow. No credentials are needed. `highlight` is safe HTML. Without `q` it is the list of products. "
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
    list=extend_schema(
        operation_id="products",
        tags=PRODUCT_TAGS,
        summary="List products",
        description="Returns a page of published products of active shops, newest first, in one language. No "
        "credentials are needed. With `shop_id`, the owner and the staff of that shop get its products in any status.",
    ),
    create=extend_schema(
        operation_id="create_product",
        tags=PRODUCT_TAGS,
        summary="Add a product to a shop",
        description="Creates a product and returns it. Store owners and staff may call this for their own shops, "
        "super admins for any shop; another shop is 403. A variable product takes its quantity and prices from its "
        "variations. Returns 422 if a field is invalid, if a type, category or image does not exist, or if you did "
        "not upload the image.",
    ),
    retrieve=extend_schema(
        operation_id="product",
        tags=PRODUCT_TAGS,
        summary="Get a product",
        description="Returns one product, found by its id, or by its slug and `language`. No credentials are needed. "
        "Products that are not published or whose shop is inactive are 404, except for the owner and staff of the "
        "shop.",
    ),
    update=extend_schema(
        operation_id="change_product",
        tags=PRODUCT_TAGS,
        summary="Change a product",
        description="Changes the fields that you send and returns the product. `variations`, `gallery` and "
        "`categories` replace the whole list. The slug, the language and the shop never change. Returns 422 for a "
        f"status that shops may not set. {SHOP_STAFF_ONLY}",
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
        description="Returns the products with fewer than 10 pieces in stock, the lowest quantity first. Store "
        "owners and staff get those of their own shops, super admins those of all shops; other users get 403. The "
        "response has an `ETag`: send it as `If-None-Match` to get 304 if nothing has changed.",
    )
)


def _describe_taxonomy(*, singular: str, plural: str, tag: str, in_use: str, list_shape: str) -> Any:
    """Return the texts of the routes of product types or categories, which differ in their nouns only."""
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
            description=f"Deletes the {noun} and returns it as it was. Returns 409 while {in_use}. {SUPER_ADMIN_ONLY}",
        ),
    )


describe_types = _describe_taxonomy(
    singular="type",
    plural="types",
    tag="Types",
    in_use="it has categories or products",
    list_shape="an array of the product types",
)
describe_categories = _describe_taxonomy(
    singular="category",
    plural="categories",
    tag="Categories",
    in_use="it has products",
    list_shape="a page of the categories",
)
