"""Services of webhook endpoints: create, change, delete, enable and disable them, and announce events to them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from shared.accounts.models import User
from shared.accounts.services import lock_active_user
from shared.api.errors import ApiError
from shared.encryption import encrypt
from shared.webhooks.destinations import (
    InvalidDestination,
    Resolver,
    parse_destination,
    require_public,
    resolve,
)
from shared.webhooks.models import Delivery, DeliveryState, Endpoint
from shared.webhooks.signing import make_secret

MAX_ENDPOINTS_PER_USER = 20
MAX_QUOTED_ID_LENGTH = 100
PREVIOUS_SECRET_LIFETIME = timedelta(hours=24)
MAX_ROWS_PER_TRANSACTION = 500
LOOKUP_TIMEOUT_SECONDS = 2.0  # each attempt looks the name up again in any case

DisabledBy = Endpoint.DisabledBy


class ObjectNotFound(ApiError):
    """The 404 for a webhook or delivery that does not exist or belongs to another user."""

    def __init__(self, kind: str, object_id: str) -> None:
        super().__init__(404, f"There is no {kind} {object_id[:MAX_QUOTED_ID_LENGTH]!r}, or it is not yours.")


@dataclass(frozen=True)
class EndpointWithSecret:
    """An endpoint with its new secret, which is never shown again."""

    endpoint: Endpoint
    secret: str


@transaction.atomic(savepoint=False)
def announce(*, user: User, url: str | None, event: str, data: dict[str, Any], now: datetime) -> None:
    """Create deliveries of an event to the user's subscribed endpoints, and to the `webhook_url` of a request.

    url: checked by `check_webhook_url`; skipped if the default endpoint, which signs for it, was disabled or deleted.
    Call it in the transaction of the event, so that both are committed or neither.
    """
    body = event_body(event, data, now)
    endpoints = Endpoint.objects.for_user(user).lock_subscribed(event)
    targets = [(endpoint, endpoint.url) for endpoint in endpoints if not endpoint.is_default]
    targets += [(endpoint, url) for endpoint in endpoints if endpoint.is_default and url is not None]
    Delivery.objects.bulk_create(
        build_delivery(endpoint=endpoint, url=target_url, event=event, body=body, now=now)
        for endpoint, target_url in targets
    )


def event_body(event: str, data: Mapping[str, Any], now: datetime) -> str:
    """Return the body of the messages about an event."""
    timestamp = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"type": event, "event": event, "timestamp": timestamp, "data": data}, ensure_ascii=False)


def build_delivery(*, endpoint: Endpoint, url: str, event: str, body: str, now: datetime) -> Delivery:
    """Return a delivery, not saved yet, that is due now."""
    return Delivery(
        endpoint=endpoint,
        event=event,
        url=url,
        destination=destination_of(url),
        body=body,
        due_at=now,
        created_at=now,
    )


def check_webhook_url(*, url: str) -> None:
    """Raise ApiError 400 for a forbidden `webhook_url`. Looks up the name: call it before the transaction."""
    _check_url(url, "webhook_url")


def create_default_endpoint(*, user: User, now: datetime) -> str | None:
    """Create the endpoint that signs for the user's `webhook_url`s, unless it exists. Return the new secret, or None.

    Call it in the transaction that accepts the request, so that a refused request creates no secret. Raises ApiError
    400 if the endpoint is disabled.
    """
    secret = make_secret()
    defaults = {"secret": lambda: encrypt(secret), "created_at": now, "updated_at": now}
    endpoint, is_new = Endpoint.objects.get_or_create(user=user, is_default=True, url="", defaults=defaults)
    if not endpoint.is_enabled:
        raise _field_error("webhook_url", "Your default webhook is disabled. Enable it, or leave webhook_url out.")
    return secret if is_new else None


def find_endpoint(*, user: User, endpoint_id: str, lock: bool = False) -> Endpoint:
    """Return one of the user's endpoints, locked on request. Raises ApiError 404, for another user's too."""
    endpoints = Endpoint.objects.for_user(user).filter(public_id=endpoint_id)
    endpoint = (endpoints.select_for_update() if lock else endpoints).first()
    if endpoint is None:
        raise ObjectNotFound("webhook", endpoint_id)
    return endpoint


def create_endpoint(
    *, user: User, url: str, events: Sequence[str], is_enabled: bool, now: datetime
) -> EndpointWithSecret:
    """Create an endpoint. Raises ApiError 400: the URL is forbidden or exists, or the user has too many endpoints."""
    _check_url(url, "url")
    secret = make_secret()
    with transaction.atomic():
        lock_active_user(user)  # concurrent requests of one user are counted one after the other
        if Endpoint.objects.for_user(user).filter(is_default=False).count() >= MAX_ENDPOINTS_PER_USER:
            message = f"You have {MAX_ENDPOINTS_PER_USER} webhooks, the maximum: 0 are left. Delete one first."
            raise _field_error("url", message)
        endpoint = Endpoint(
            user=user,
            url=url,
            events=list(dict.fromkeys(events)),
            is_enabled=is_enabled,
            disabled_by="" if is_enabled else DisabledBy.OWNER,
            secret=encrypt(secret),
            created_at=now,
            updated_at=now,
        )
        _save_with_unique_url(endpoint)
    return EndpointWithSecret(endpoint, secret)


def change_endpoint(
    *,
    user: User,
    endpoint_id: str,
    url: str | None,
    events: Sequence[str] | None,
    is_enabled: bool | None,
    now: datetime,
) -> Endpoint:
    """Change the fields that are not None.

    Pending deliveries move to a new URL, and are cancelled if the endpoint is disabled. Raises ApiError 404, 400.
    """
    if url is not None:
        _check_url(url, "url")
    with transaction.atomic():
        endpoint = find_endpoint(user=user, endpoint_id=endpoint_id, lock=True)
        if endpoint.is_default and (url is not None or events is not None):
            field = "events" if url is None else "url"
            raise _field_error(field, f"`{field}` cannot be set on your default webhook.")
        if events is not None:
            endpoint.events = list(dict.fromkeys(events))
        if is_enabled is not None:
            _set_enabled(endpoint, is_enabled, now)
        endpoint.updated_at = now
        if url is not None:
            endpoint.url = url
            endpoint.deliveries.unfinished().update(url=url, destination=destination_of(url))
        _save_with_unique_url(endpoint)
    return endpoint


def delete_endpoint(*, user: User, endpoint_id: str) -> None:
    """Delete the endpoint with its deliveries.

    Raises ApiError 404, and 400 if an operator has disabled it: its owner could create it again.
    """
    with transaction.atomic():
        endpoint = find_endpoint(user=user, endpoint_id=endpoint_id, lock=True)
        if endpoint.disabled_by == DisabledBy.OPERATOR:
            raise _field_error("id", "An operator has disabled this webhook. Ask them to enable it.")
        # Waits for workers that are recording an attempt of these deliveries.
        list(endpoint.deliveries.unfinished().select_for_update().values_list("pk"))
        endpoint.delete()


def rotate_secret(*, user: User, endpoint_id: str, now: datetime) -> EndpointWithSecret:
    """Create a new secret. The previous one also signs for PREVIOUS_SECRET_LIFETIME. Raises ApiError 404."""
    secret = make_secret()
    with transaction.atomic():
        endpoint = find_endpoint(user=user, endpoint_id=endpoint_id, lock=True)
        endpoint.previous_secret, endpoint.secret = endpoint.secret, encrypt(secret)
        endpoint.previous_secret_until = now + PREVIOUS_SECRET_LIFETIME
        endpoint.updated_at = now
        endpoint.save()
    return EndpointWithSecret(endpoint, secret)


def disable_endpoints(*, endpoints: Sequence[int], by: Endpoint.DisabledBy, now: datetime) -> None:
    """Disable endpoints, given by primary key, and cancel their pending deliveries.

    Endpoints that an operator has disabled stay so. Runs in transactions of MAX_ROWS_PER_TRANSACTION.
    """
    for chunk in chunks(endpoints):
        with transaction.atomic():
            rows = Endpoint.objects.filter(pk__in=chunk).exclude(disabled_by=DisabledBy.OPERATOR)
            locked = list(rows.select_for_update().values_list("pk", flat=True))
            Endpoint.objects.filter(pk__in=locked).update(is_enabled=False, disabled_by=by, updated_at=now)
            _cancel_pending(Delivery.objects.filter(endpoint__in=locked), now)


def disable_endpoints_of_former_users(*, now: datetime) -> None:
    """Disable the endpoints of users who lost the right to webhooks, and cancel their pending deliveries.

    Users who get the right back can enable them again.
    """
    endpoints = list(Endpoint.objects.of_former_users().values_list("pk", flat=True))
    disable_endpoints(endpoints=endpoints, by=DisabledBy.OWNER, now=now)


def enable_endpoints(*, endpoints: Sequence[int], now: datetime) -> None:
    """Enable endpoints, given by primary key, whoever disabled them: an operator's action."""
    for chunk in chunks(endpoints):
        Endpoint.objects.filter(pk__in=chunk).update(is_enabled=True, disabled_by="", updated_at=now)


def chunks(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    """Return slices of MAX_ROWS_PER_TRANSACTION keys."""
    return (keys[start : start + MAX_ROWS_PER_TRANSACTION] for start in range(0, len(keys), MAX_ROWS_PER_TRANSACTION))


def destination_of(url: str) -> str:
    """Return the URL's `host:port`, or "" for a URL that is no longer allowed, which an attempt will refuse."""
    try:
        return parse_destination(url, allowlist=settings.WEBHOOK_ALLOW).authority
    except InvalidDestination:
        return ""


def _set_enabled(endpoint: Endpoint, is_enabled: bool, now: datetime) -> None:
    if endpoint.disabled_by == DisabledBy.OPERATOR:
        raise _field_error("enabled", "An operator has disabled this webhook. Ask them to enable it.")
    if is_enabled == endpoint.is_enabled:
        return
    endpoint.is_enabled, endpoint.disabled_by = is_enabled, "" if is_enabled else DisabledBy.OWNER
    if not is_enabled:
        _cancel_pending(endpoint.deliveries.all(), now)


def _cancel_pending(deliveries: QuerySet[Delivery], now: datetime) -> None:
    """Cancel pending deliveries; the attempts being made end by themselves."""
    pending = deliveries.filter(state=DeliveryState.PENDING)
    pending.update(state=DeliveryState.CANCELLED, due_at=None, finished_at=now)


def _save_with_unique_url(endpoint: Endpoint) -> None:
    try:
        with transaction.atomic():
            endpoint.save()
    except IntegrityError:
        raise _field_error("url", "`url` must be unique, and another webhook of yours has it.") from None


def _check_url(url: str, field: str, resolve: Resolver = resolve) -> None:
    """Raise ApiError 400 for a forbidden URL. A name that cannot be resolved in time passes: each attempt checks it."""
    try:
        destination = parse_destination(url, allowlist=settings.WEBHOOK_ALLOW)
        if destination.is_allowlisted:
            return
        addresses = resolve(destination.host, destination.port)
        if wait([addresses], LOOKUP_TIMEOUT_SECONDS).done and addresses.exception() is None:
            require_public(destination, addresses.result())
    except InvalidDestination as error:
        raise _field_error(field, f"`{field}` {error}") from None


def _field_error(field: str, message: str) -> ApiError:
    return ApiError(400, message, details={"field": field})
