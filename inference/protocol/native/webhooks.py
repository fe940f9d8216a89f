"""The wire forms of webhooks: endpoints, and the ledger of what was sent to them."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from inference.protocol.native.body import RequestBody

WebhookEvent = Literal["batch.complete"]
WEBHOOK_EVENTS: tuple[WebhookEvent, ...] = ("batch.complete",)
DeliveryState = Literal["pending", "sending", "delivered", "failed", "cancelled"]
WebhookUrl = Annotated[
    str, Meta(max_length=2048, description="http or https, port 80 or 443, of a server on the public internet.")
]
WebhookEvents = Annotated[list[WebhookEvent], Meta(max_length=16, description="What it is told of.")]


class WebhookCreateRequest(RequestBody):
    """A new webhook."""

    url: WebhookUrl
    events: WebhookEvents = msgspec.field(default_factory=lambda: list(WEBHOOK_EVENTS))
    enabled: bool = True


class WebhookUpdateRequest(RequestBody):
    """What is left out stays as it is."""

    url: WebhookUrl | UnsetType = UNSET
    events: WebhookEvents | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class WebhookEndpoint(Struct):
    """A webhook. `url` null: the default one, which signs what goes to the `webhook_url` of single requests.
    `disabled_by`: `owner`, `receiver` (it answered 410) or `operator`. Until `previous_secret_until` two secrets sign.
    """

    id: str
    url: str | None
    events: list[str]
    enabled: bool
    disabled_by: str | None
    previous_secret_until: datetime | None
    created_at: datetime
    updated_at: datetime


class WebhookEndpointWithSecret(WebhookEndpoint):
    """A webhook with the secret that was made just now. It is never shown again."""

    secret: str


class WebhookEndpointList(Struct):
    """Newest first."""

    webhooks: list[WebhookEndpoint]


class WebhookDeleted(Struct):
    """It is gone."""

    id: str
    deleted: bool


class DeliveriesQuery(Struct, forbid_unknown_fields=True):
    """`after`: the last id of the page before."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    after: str = ""
    state: DeliveryState | UnsetType = UNSET


class DeliveryAttempt(Struct):
    """One attempt. `status`: the receiver's, where it gave one. `failure`: why it did not arrive; null: it did."""

    number: int
    started_at: datetime
    duration_ms: int
    status: int | None
    failure: str | None


class WebhookDelivery(Struct):
    """One message; `id` is its `webhook-id`. `next_attempt_at`: null once it is over."""

    id: str
    event: str
    url: str
    state: DeliveryState
    attempt_count: int
    next_attempt_at: datetime | None
    created_at: datetime
    finished_at: datetime | None


class WebhookDeliveryList(Struct):
    """Newest first. `next`: what to give as `after` for the next page; null at the end."""

    deliveries: list[WebhookDelivery]
    next: str | None


class WebhookDeliveryDetail(WebhookDelivery):
    """One message with what it says and how its attempts went."""

    body: dict[str, Any]
    attempts: list[DeliveryAttempt]
