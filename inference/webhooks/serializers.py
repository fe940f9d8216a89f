"""Wire forms of endpoints, deliveries and attempts."""

import json

from inference.protocol.native.webhooks import (
    DeliveryAttempt,
    WebhookDelivery,
    WebhookDeliveryDetail,
    WebhookEndpoint,
    WebhookEndpointWithSecret,
)
from shared.webhooks.models import Attempt, Delivery, DeliveryState, Endpoint
from shared.webhooks.services import EndpointWithSecret


def serialize_endpoint(endpoint: Endpoint) -> WebhookEndpoint:
    """Return the wire form, without the secret."""
    return WebhookEndpoint(
        id=endpoint.public_id,
        url=endpoint.url or None,
        events=endpoint.events,
        enabled=endpoint.is_enabled,
        disabled_by=endpoint.disabled_by or None,
        previous_secret_until=endpoint.previous_secret_until,
        created_at=endpoint.created_at,
        updated_at=endpoint.updated_at,
    )


def serialize_endpoint_with_secret(issued: EndpointWithSecret) -> WebhookEndpointWithSecret:
    """Return the wire form with the secret, which is shown once."""
    form = serialize_endpoint(issued.endpoint)
    return WebhookEndpointWithSecret(
        **{name: getattr(form, name) for name in form.__struct_fields__}, secret=issued.secret
    )


def serialize_delivery(delivery: Delivery) -> WebhookDelivery:
    """Return the wire form, without body and attempts."""
    return WebhookDelivery(
        id=delivery.public_id,
        event=delivery.event,
        url=delivery.url,
        state=delivery.state,  # type: ignore[arg-type]
        attempt_count=delivery.attempts,
        next_attempt_at=delivery.due_at if delivery.state == DeliveryState.PENDING else None,
        created_at=delivery.created_at,
        finished_at=delivery.finished_at,
    )


def serialize_delivery_detail(delivery: Delivery) -> WebhookDeliveryDetail:
    """Return the wire form with body and attempts."""
    form = serialize_delivery(delivery)
    return WebhookDeliveryDetail(
        **{name: getattr(form, name) for name in form.__struct_fields__},
        body=json.loads(delivery.body),
        attempts=[_serialize_attempt(attempt) for attempt in delivery.attempt_log.all()],
    )


def _serialize_attempt(attempt: Attempt) -> DeliveryAttempt:
    return DeliveryAttempt(
        number=attempt.number,
        started_at=attempt.started_at,
        duration_ms=attempt.duration_ms,
        status=attempt.status,
        failure=attempt.failure or None,
    )
