"""OpenAPI texts of the routes of addresses."""

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view

TAGS = ["Addresses"]
VALIDATE = OpenApiParameter(
    "validate",
    {"type": "string", "enum": ["0", "1", "false", "true"], "default": "0", "example": "1"},
    description="1 adds `validation` to each address: its check against the postal rules of its country.",
)

describe_addresses = extend_schema_view(
    list=extend_schema(
        tags=TAGS,
        summary="List your addresses",
        description="Returns an array of your own addresses. Any signed-in user may call this. With `validate=1` the "
        "array has at most 100 addresses.",
        parameters=[VALIDATE],
    ),
    create=extend_schema(
        tags=TAGS,
        summary="Add an address",
        description="Creates an address of yours and returns it. Any signed-in user may call this; super admins may "
        "create addresses of any customer. A new default replaces the previous one of its type. Returns 422 for the id "
        "of another customer, for an address that is empty or larger than 16 KiB, and for more than 100 addresses.",
    ),
    retrieve=extend_schema(
        tags=TAGS,
        summary="Get an address",
        description="Returns one of your own addresses; any other is 404.",
        parameters=[VALIDATE],
    ),
    update=extend_schema(
        tags=TAGS,
        summary="Change an address",
        description="Changes the fields that you send of one of your own addresses and returns it; any other is 404. "
        "The customer never changes.",
    ),
    destroy=extend_schema(
        tags=TAGS,
        summary="Delete an address",
        description="Deletes one of your own addresses and returns `true`; any other is 404.",
    ),
)
