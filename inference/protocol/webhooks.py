"""The wire forms of webhooks: endpoints, and the ledger of what was sent to them."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from inference.protocol.native import Body

Event = Literal["batch.complete"]
EVENTS: tuple[Event, ...] = ("batch.complete",)
DeliveryState = Literal["pending", "sending", "delivered", "failed", "cancelled"]
Url = Annotated[
    str, Meta(max_length=2048, description="http or https, port 80 or 443, of a server on the public internet.")
]
Events = Annotated[list[Event], Meta(max_length=16, description="What it is told of.")]


class EndpointBody(Body):
    """A new webhook."""

    url: Url
    events: Events = msgspec.field(default_factory=lambda: list(EVENTS))
    enabled: bool = True


class EndpointChanges(Body):
    """What is left out stays as it is."""

    url: Url | UnsetType = UNSET
    events: Events | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class Endpoint(Struct):
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


class IssuedEndpoint(Endpoint):
    """A webhook with the secret that was made just now. It is never shown again."""

    secret: str


class EndpointList(Struct):
    """Newest first."""

    webhooks: list[Endpoint]


class Deleted(Struct):
    """It is gone."""

    id: str
    deleted: bool


class DeliveriesQuery(Struct, forbid_unknown_fields=True):
    """`after`: the last id of the page before."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    after: str = ""
    state: DeliveryState | UnsetType = UNSET


class Attempt(Struct):
    """One attempt. `status`: the receiver's, where it gave one. `failure`: why it did not arrive; null: it did."""

    number: int
    started_at: datetime
    duration_ms: int
    status: int | None
    failure: str | None


class Delivery(Struct):
    """One message; `id` is its `webhook-id`. `next_attempt_at`: null once it is over."""

    id: str
    event: str
    url: str
    state: DeliveryState
    attempt_count: int
    next_attempt_at: datetime | None
    created_at: datetime
    finished_at: datetime | None


class DeliveryList(Struct):
    """Newest first. `next`: what to give as `after` for the next page; null at the end."""

    deliveries: list[Delivery]
    next: str | None


class DeliveryDetail(Delivery):
    """One message with what it says and how its attempts went."""

    body: dict[str, Any]
    attempts: list[Attempt]
