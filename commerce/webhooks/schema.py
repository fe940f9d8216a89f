"""OpenAPI texts of the routes of webhooks."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view

from commerce.webhooks.serializers import (
    NewWebhookSerializer,
    WebhookChangesSerializer,
    WebhookDeliveryDetailSerializer,
    WebhookDeliverySerializer,
    WebhookSerializer,
    WebhookWithSecretSerializer,
)

TAGS = ["Webhooks"]
OWN = "Store owners and super admins may call this. Returns 404 for a webhook that is not yours."

describe_webhooks = extend_schema_view(
    list=extend_schema(
        operation_id="webhooks",
        tags=TAGS,
        summary="List your webhooks",
        description="Returns an array of your webhooks without their secrets, newest first. Store owners and super "
        "admins may call this.",
    ),
    create=extend_schema(
        operation_id="create_webhook",
        tags=TAGS,
        summary="Create a webhook",
        description="Registers a URL that receives a signed message for each event of your shops, as Standard Webhooks "
        "describes; for super admins, of all shops. The response has the secret that signs the messages. Store owners "
        "and super admins may call this. Returns 422 for a URL that is not of a public server or that you have "
        "registered already, and for more than 20 webhooks.",
        request=NewWebhookSerializer,
        responses={201: WebhookWithSecretSerializer},
    ),
    retrieve=extend_schema(
        operation_id="webhook",
        tags=TAGS,
        summary="Get a webhook",
        description=f"Returns one of your webhooks without its secret. {OWN}",
    ),
    partial_update=extend_schema(
        operation_id="change_webhook",
        tags=TAGS,
        summary="Change a webhook",
        description="Changes the fields that you send and returns the webhook. Pending deliveries are sent to a new "
        f"URL, and are cancelled when the webhook is disabled. {OWN}",
        request=WebhookChangesSerializer,
        responses=WebhookSerializer,
    ),
    destroy=extend_schema(
        operation_id="delete_webhook",
        tags=TAGS,
        summary="Delete a webhook",
        description="Deletes one of your webhooks with its deliveries and returns `true`. Returns 409 for a webhook "
        f"that an operator has disabled. {OWN}",
        responses={200: OpenApiTypes.BOOL},
    ),
    rotate=extend_schema(
        operation_id="rotate_webhook_secret",
        tags=TAGS,
        summary="Rotate a webhook's secret",
        description="Creates a new secret and returns it with the webhook. For 24 hours messages are signed with the "
        f"previous secret as well. {OWN}",
        request=None,
        responses=WebhookWithSecretSerializer,
    ),
)

describe_deliveries = extend_schema_view(
    list=extend_schema(
        operation_id="webhook_deliveries",
        tags=TAGS,
        summary="List the deliveries of a webhook",
        description="Returns a page of the messages to one of your webhooks, newest first. A delivery is kept for "
        f"seven days after its end. {OWN}",
    ),
    retrieve=extend_schema(
        operation_id="webhook_delivery",
        tags=TAGS,
        summary="Get a delivery",
        description="Returns one message with its body and its attempts. The receiver's response bodies are not "
        f"stored. {OWN}",
        responses=WebhookDeliveryDetailSerializer,
    ),
    redeliver=extend_schema(
        operation_id="redeliver_webhook",
        tags=TAGS,
        summary="Send a delivery again",
        description="Sends a message again now, with the same id and body, and retries on failure as for a new "
        f"message. Returns 409 while it is being sent and while the webhook is disabled. {OWN}",
        request=None,
        responses=WebhookDeliverySerializer,
    ),
)
