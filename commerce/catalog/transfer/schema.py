"""OpenAPI texts of exports and imports of products and variations."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view

from commerce.catalog.transfer.serializers import (
    ImportResultSerializer,
    ProductImportSerializer,
    VariationImportSerializer,
)

TAGS = ["Products"]
READERS = (
    "The owner and the staff of the shop and super admins get products in every status, everybody else published ones: "
    "no credentials are needed. A cell that a spreadsheet would take for a formula begins with an apostrophe, which an "
    "import removes. Returns 404 for an inactive shop unless you own it or work there."
)
WRITERS = (
    "Nothing is deleted; importing the same file again changes nothing. Returns 422 with the number of the line, as in "
    "`csv.3`, for each invalid line. Only the owner and the staff of the shop and super admins may call this; others "
    "get 403."
)

describe_export_products = extend_schema_view(
    get=extend_schema(
        operation_id="export_products",
        tags=TAGS,
        summary="Export a shop's products as CSV",
        description="Returns a CSV file with one line for each product, with its prices in major units of `currency`, "
        f"and the slugs of its type, categories and tags. {READERS}",
        responses={(200, "text/csv"): OpenApiTypes.STR},
    )
)
describe_export_variations = extend_schema_view(
    get=extend_schema(
        operation_id="export_variation_options",
        tags=TAGS,
        summary="Export a shop's variations as CSV",
        description="Returns a CSV file with one line for each variation of the shop's products, with its options as "
        f"a JSON array. {READERS}",
        responses={(200, "text/csv"): OpenApiTypes.STR},
    )
)
describe_import_products = extend_schema_view(
    post=extend_schema(
        operation_id="import_products",
        tags=TAGS,
        summary="Import products from CSV",
        description="Adds the products of a CSV file of up to 4 MiB and 5,000 products to a shop and changes those "
        "that it has, all of them or none, and returns how many are new and changed. A product is found by `id`, else "
        "by `slug`, else by `sku`, else by `name`, in its language. Columns that the file does not have stay as they "
        f"are. {WRITERS}",
        request={"multipart/form-data": ProductImportSerializer},
        responses=ImportResultSerializer,
    )
)
describe_import_variations = extend_schema_view(
    post=extend_schema(
        operation_id="import_variation_options",
        tags=TAGS,
        summary="Import variations from CSV",
        description="Adds the variations of a CSV file, up to 5,000 of up to 500 products, to the shop's variable "
        "products and changes those that they have, all of them or none, and returns how many are new and "
        "changed. The product is named by `product_id`, or by its slug `product`; a variation is found by `id`, else "
        f"by `sku`, else by `title`. {WRITERS}",
        request={"multipart/form-data": VariationImportSerializer},
        responses=ImportResultSerializer,
    )
)
