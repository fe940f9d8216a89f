"""OpenAPI texts of the routes of descriptions."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view

from commerce.descriptions.jobs.serializers import BatchMessageSerializer
from commerce.descriptions.serializers import (
    DescriptionRequestSerializer,
    DescriptionSerializer,
    QuotaSerializer,
)
from shared.api.query_params import MAX_INTEGER

TAGS = ["AI"]
SHOPS_ONLY = "Store owners, staff and super admins may call this; customers get 403."
OWN_SHOPS = "The draft must belong to a product of your shops; any other is 404."
OPEN_ONLY = "Returns 409 for a draft that is accepted or discarded."
# The schema of one event of the stream.
EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["data"],
    "properties": {
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "description": "A piece of the text, the end of the stream, or an error.",
            "example": '{"text": "The Velmo"}',
        }
    },
}

describe_generation = extend_schema_view(
    post=extend_schema(
        operation_id="generate_description",
        tags=TAGS,
        summary="Write a product description",
        description="Writes a description with the language model and returns it. Store owners, staff and super "
        "admins may call this. Several texts are drawn at once, and the first is returned that has the product's name "
        "and every keyword, and no claim that was not given. Where there is none, the facts are stated and `fallback` "
        'is true. With `stream` the response is a stream of events: `{"text": ...}` for each sentence, or for each '
        'piece of an answer to a `prompt`, and `{"done": true, "description": ...}` at the end. With `product_id` the '
        "text is saved as a draft. Each call is charged to the daily quota of the product's shop, or of your first "
        "shop; a failed one is refunded. Returns 404 for a product of another shop, 422 for a language that the model "
        "cannot write, 429 when the quota is used up, 500 if the provider fails and 503 while it is busy.",
        request=DescriptionRequestSerializer,
        responses={
            (200, "application/json"): DescriptionSerializer,
            (200, "text/event-stream"): EVENT,
        },
    )
)

describe_quota = extend_schema_view(
    get=extend_schema(
        operation_id="description_allowance",
        tags=TAGS,
        summary="Get the daily quota",
        description="Returns how many descriptions a shop may request today, and how many it has requested. Store "
        "owners, staff and super admins may call this. Returns 404 for a product of another shop.",
        parameters=[
            OpenApiParameter(
                "product_id",
                {"type": "integer", "minimum": 1, "maximum": MAX_INTEGER, "example": 7},
                description="Product whose shop's quota is returned. Default: your first shop.",
            )
        ],
        responses=QuotaSerializer,
    )
)

describe_drafts = extend_schema_view(
    list=extend_schema(
        operation_id="description_drafts",
        tags=TAGS,
        summary="List drafts",
        description=f"Returns a page of the drafts for products of your shops, the newest first. {SHOPS_ONLY}",
    ),
    retrieve=extend_schema(
        operation_id="description_draft",
        tags=TAGS,
        summary="Get a draft",
        description=f"Returns one draft. {OWN_SHOPS} {SHOPS_ONLY}",
    ),
    update=extend_schema(
        operation_id="change_description_draft",
        tags=TAGS,
        summary="Edit a draft",
        description=f"Replaces the text of an open draft and returns it. {OWN_SHOPS} {OPEN_ONLY} {SHOPS_ONLY}",
    ),
    accept=extend_schema(
        operation_id="accept_description_draft",
        tags=TAGS,
        summary="Make a draft the product's description",
        description="Replaces the product's description with the draft, or with your `text`, and returns the draft. "
        f"With `unless_changed`, a description that was changed meanwhile is 409. {OWN_SHOPS} {OPEN_ONLY} {SHOPS_ONLY}",
    ),
    discard=extend_schema(
        operation_id="discard_description_draft",
        tags=TAGS,
        summary="Discard a draft",
        description="Marks a draft as discarded and returns it; the product stays as it is. "
        f"{OWN_SHOPS} {OPEN_ONLY} {SHOPS_ONLY}",
    ),
)

describe_jobs = extend_schema_view(
    list=extend_schema(
        operation_id="description_jobs",
        tags=TAGS,
        summary="List jobs",
        description=f"Returns a page of your own jobs, the newest first; super admins get all jobs. {SHOPS_ONLY}",
    ),
    create=extend_schema(
        operation_id="create_description_job",
        tags=TAGS,
        summary="Write many descriptions",
        description="Creates a job that writes a draft for each of up to 200 products, and returns it at once. Read "
        "the job to follow its progress. Each product is charged to the daily quota of its shop. Returns 422 for "
        f"products of other shops, and 429 when the quota is too small. {SHOPS_ONLY}",
    ),
    retrieve=extend_schema(
        operation_id="description_job",
        tags=TAGS,
        summary="Get a job",
        description=f"Returns one of your own jobs with its products; any other is 404. {SHOPS_ONLY}",
    ),
    cancel=extend_schema(
        operation_id="cancel_description_job",
        tags=TAGS,
        summary="Cancel a job",
        description="Cancels the products of a job that are not written yet and returns the job. Drafts that are "
        f"written stay. Returns 404 for a job of another user, and 409 for one that has ended. {SHOPS_ONLY}",
    ),
)

describe_webhook = extend_schema_view(
    post=extend_schema(
        operation_id="description_webhook",
        tags=TAGS,
        summary="Receive the model server's webhook",
        description="Accepts the message of the model server that a batch has ended, and returns `true`. No "
        "credentials are needed: the message is signed. Returns 400 for a wrong or old signature.",
        request=BatchMessageSerializer,
        responses=OpenApiTypes.BOOL,
        examples=[
            OpenApiExample("Message", value={"data": {"batch_id": "batch_9f86d081884c"}}, request_only=True),
            OpenApiExample("Accepted", value=True, response_only=True),
        ],
    )
)
