"""Wire structs of webhooks: endpoints, and the deliveries to them."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from inference.protocol.native.body import RequestBody

WebhookEvent = Literal["batch.complete"]
WEBHOOK_EVENTS: tuple[WebhookEvent, ...] = ("batch.complete",)
DeliveryState = Literal["pending", "sending", "delivered", "failed", "cancelled"]

WebhookUrl = Annotated[
    str,
    Meta(
        max_length=2048,
        description="URL that receives the messages: http or https, port 80 or 443, of a server on the public "
        "internet.",
        examples=["https://hooks.example.com/stoa"],
    ),
]
WebhookEvents = Annotated[
    list[WebhookEvent], Meta(max_length=16, description="Events that are sent.", examples=[["batch.complete"]])
]
WebhookEnabled = Annotated[bool, Meta(description="Whether messages are sent.", examples=[True])]
WebhookId = Annotated[str, Meta(description="Id of the webhook.", examples=["wh_1f0c2a53d9c64ab2f84e1d07"])]
DeliveryId = Annotated[
    str,
    Meta(description="Id of the delivery; also its `webhook-id` header.", examples=["msg_6a2f7c1d9e4b83505f1ce2d7"]),
]
CreatedTime = Annotated[datetime, Meta(description="Time of the creation.", examples=["2026-11-21T18:00:00Z"])]


class WebhookCreateRequest(RequestBody):
    """A new webhook."""

    url: WebhookUrl
    events: WebhookEvents = msgspec.field(default_factory=lambda: list(WEBHOOK_EVENTS))
    enabled: WebhookEnabled = True


class WebhookUpdateRequest(RequestBody):
    """Changes of a webhook; absent fields keep their values."""

    url: WebhookUrl | UnsetType = UNSET
    events: WebhookEvents | UnsetType = UNSET
    enabled: WebhookEnabled | UnsetType = UNSET


class WebhookEndpoint(Struct):
    """A webhook without its secret. The default one, which signs for `webhook_url`s of batches, has no URL."""

    id: WebhookId
    url: Annotated[
        str | None,
        Meta(
            description="URL that receives the messages. Null for the default webhook, which signs the messages to the "
            "`webhook_url` of batches.",
            examples=["https://hooks.example.com/stoa"],
        ),
    ]
    events: Annotated[list[str], Meta(description="Events that are sent.", examples=[["batch.complete"]])]
    enabled: WebhookEnabled
    disabled_by: Annotated[
        str | None,
        Meta(
            description="Who disabled the webhook: `owner`, `receiver` (it answered 410), `operator`, or null.",
            examples=["owner"],
        ),
    ]
    previous_secret_until: Annotated[
        datetime | None,
        Meta(
            description="Time until which the previous secret signs as well, or null.",
            examples=["2026-11-22T18:00:00Z"],
        ),
    ]
    created_at: CreatedTime
    updated_at: Annotated[datetime, Meta(description="Time of the last change.", examples=["2026-11-21T18:00:00Z"])]


class WebhookEndpointWithSecret(WebhookEndpoint):
    """A webhook with its new secret."""

    secret: Annotated[
        str,
        Meta(
            description="Secret that signs the messages. It is not shown again.",
            examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="],
        ),
    ]


class WebhookEndpointList(Struct):
    """Webhooks, newest first."""

    webhooks: Annotated[list[WebhookEndpoint], Meta(description="Webhooks, newest first.")]


class WebhookDeleted(Struct):
    """A deleted webhook."""

    id: WebhookId
    deleted: Annotated[bool, Meta(description="Always true.", examples=[True])]


class DeliveriesQuery(Struct, forbid_unknown_fields=True):
    """The page of deliveries."""

    limit: Annotated[int, Meta(ge=1, le=100, description="Maximum number of deliveries.", examples=[20])] = 20
    after: Annotated[
        str,
        Meta(
            description="Id of the last delivery of the previous page.",
            examples=["msg_6a2f7c1d9e4b83505f1ce2d7"],
            extra_json_schema={"maxLength": 64},
        ),
    ] = ""
    state: Annotated[DeliveryState, Meta(description="State of the deliveries.")] | UnsetType = UNSET


class DeliveryAttempt(Struct):
    """One attempt to send a message."""

    number: Annotated[int, Meta(description="Number of the attempt, from 1.", examples=[1])]
    started_at: Annotated[datetime, Meta(description="Start of the attempt.", examples=["2026-11-21T18:05:00.050Z"])]
    duration_ms: Annotated[int, Meta(description="Duration of the attempt in milliseconds.", examples=[160])]
    status: Annotated[
        int | None, Meta(description="HTTP status of the receiver, or null if it sent none.", examples=[200])
    ]
    failure: Annotated[
        str | None, Meta(description="Reason of the failure, or null for a success.", examples=["timed_out"])
    ]


class WebhookDelivery(Struct):
    """One message to a webhook."""

    id: DeliveryId
    event: Annotated[str, Meta(description="Event that the message is about.", examples=["batch.complete"])]
    url: Annotated[str, Meta(description="URL that receives the message.", examples=["https://hooks.example.com/stoa"])]
    state: Annotated[DeliveryState, Meta(description="State of the delivery.")]
    attempt_count: Annotated[int, Meta(description="Number of attempts so far.", examples=[1])]
    next_attempt_at: Annotated[
        datetime | None,
        Meta(description="Time of the next attempt, or null after the last one.", examples=["2026-11-21T18:07:00Z"]),
    ]
    created_at: CreatedTime
    finished_at: Annotated[
        datetime | None,
        Meta(description="Time at which the delivery ended, or null.", examples=["2026-11-21T18:05:00.210Z"]),
    ]


class WebhookDeliveryList(Struct):
    """A page of deliveries, newest first."""

    deliveries: Annotated[list[WebhookDelivery], Meta(description="Deliveries, newest first.")]
    next: Annotated[
        str | None,
        Meta(
            description="Value of `after` for the next page, or null on the last page.",
            examples=["msg_6a2f7c1d9e4b83505f1ce2d7"],
        ),
    ]


class WebhookDeliveryDetail(WebhookDelivery):
    """One message with its body and its attempts."""

    body: Annotated[dict[str, Any], Meta(description="Body of the message.")]
    attempts: Annotated[list[DeliveryAttempt], Meta(description="Attempts in order.")]
