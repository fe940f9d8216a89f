"""Rows as their wire forms."""

import json
from datetime import datetime

from inference.protocol import webhooks as wire
from inference.webhooks.models import Attempt, Delivery, Endpoint
from inference.webhooks.services import Issued


def endpoint_form(endpoint: Endpoint) -> wire.Endpoint:
    return wire.Endpoint(
        id=endpoint.public_id,
        url=endpoint.url or None,
        events=endpoint.events,
        enabled=endpoint.is_enabled,
        disabled_by=endpoint.disabled_by or None,
        previous_secret_until=endpoint.previous_secret_until,
        created_at=endpoint.created_at,
        updated_at=endpoint.updated_at,
    )


def issued_form(issued: Issued) -> wire.IssuedEndpoint:
    form = endpoint_form(issued.endpoint)
    return wire.IssuedEndpoint(**{name: getattr(form, name) for name in form.__struct_fields__}, secret=issued.secret)


def delivery_form(delivery: Delivery) -> wire.Delivery:
    return wire.Delivery(
        id=delivery.public_id,
        event=delivery.event,
        url=delivery.url,
        state=delivery.state,  # type: ignore[arg-type]
        attempt_count=delivery.attempts,
        next_attempt_at=_next_attempt_at(delivery),
        created_at=delivery.created_at,
        finished_at=delivery.finished_at,
    )


def detail_form(delivery: Delivery) -> wire.DeliveryDetail:
    form = delivery_form(delivery)
    return wire.DeliveryDetail(
        **{name: getattr(form, name) for name in form.__struct_fields__},
        body=json.loads(delivery.body),
        attempts=[_attempt_form(attempt) for attempt in delivery.ledger.all()],
    )


def _attempt_form(attempt: Attempt) -> wire.Attempt:
    return wire.Attempt(
        number=attempt.number,
        started_at=attempt.started_at,
        duration_ms=attempt.duration_ms,
        status=attempt.status,
        failure=attempt.failure or None,
    )


def _next_attempt_at(delivery: Delivery) -> datetime | None:
    return delivery.due_at if delivery.state == Delivery.State.PENDING else None
