"""OpenAPI texts of the routes of attributes."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view

from commerce.attributes.serializers import AttributeImportSerializer, ImportCountsSerializer

TAGS = ["Attributes"]
OWNER_ONLY = "Only the owner of the shop and super admins may call this; others get 403."

describe_attributes = extend_schema_view(
    list=extend_schema(
        operation_id="attributes",
        tags=TAGS,
        summary="List attributes",
        description="Returns an array of the attributes of active shops, with their values: those in `language`, or "
        "without it the English ones and those that have no English translation. No credentials are needed. The owner "
        "and the staff of a shop also get its attributes while it is inactive.",
    ),
    create=extend_schema(
        operation_id="create_attribute",
        tags=TAGS,
        summary="Add an attribute to a shop",
        description="Creates an attribute with its values and returns it. A translation is an attribute with the "
        "`slug` of the original and another `language`. Returns 422 if the shop would have more than 1,000 "
        f"attributes or 20,000 values. {OWNER_ONLY}",
    ),
    retrieve=extend_schema(
        operation_id="attribute",
        tags=TAGS,
        summary="Get an attribute",
        description="Returns one attribute, found by its id, or by its slug and `language`. Without a "
        "`language` the English one comes first. No credentials are needed. "
        "Attributes of inactive shops are 404, except for the owner and the staff of the shop.",
    ),
    update=extend_schema(
        operation_id="change_attribute",
        tags=TAGS,
        summary="Change an attribute",
        description="Changes the fields that you send and returns the attribute. `values` replaces the whole list: "
        "values with an `id` are changed, values without one are added, and all others are deleted. The slug and the "
        f"language never change. To move an attribute you must own both shops. {OWNER_ONLY}",
    ),
    destroy=extend_schema(
        operation_id="delete_attribute",
        tags=TAGS,
        summary="Delete an attribute",
        description="Deletes the attribute in this language with its values, and returns it as it was. Translations "
        f"stay. {OWNER_ONLY}",
    ),
)

describe_export = extend_schema_view(
    get=extend_schema(
        operation_id="export_attributes",
        tags=TAGS,
        summary="Export a shop's attributes as CSV",
        description="Returns a CSV file with the columns name, slug, language, value and meta, one line for each "
        "value. No credentials are needed. A cell that a spreadsheet would take for a formula begins with an "
        "apostrophe, which an import removes. Returns 404 for an inactive shop unless you own it or work there.",
        responses={(200, "text/csv"): OpenApiTypes.STR},
    )
)

describe_import = extend_schema_view(
    post=extend_schema(
        operation_id="import_attributes",
        tags=TAGS,
        summary="Import attributes from CSV",
        description="Adds the attributes and values of a CSV file of up to 4 MiB and 20,000 lines to a shop, all of "
        "them or none, and returns how many are new or changed. Nothing is deleted; importing the same file again "
        f"changes nothing. Returns 422 with the number of the line, as in `csv.3`, for each invalid line. {OWNER_ONLY}",
        request={"multipart/form-data": AttributeImportSerializer},
        responses=ImportCountsSerializer,
    )
)
