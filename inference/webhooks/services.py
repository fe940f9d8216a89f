"""Every write to endpoints, and what may be told to them. The clock is passed in; errors are ApiErrors."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from inference.webhooks.destinations import (
    BadDestination,
    LookUp,
    look_up,
    parse_destination,
    public_addresses,
)
from inference.webhooks.models import Delivery, Endpoint
from inference.webhooks.sealing import SecretLost, reseal, seal
from inference.webhooks.signing import make_secret
from shared.accounts.models import User
from shared.accounts.services import lock_active
from shared.api.errors import ApiError

BATCH_COMPLETE = "batch.complete"
EVENTS = (BATCH_COMPLETE,)
MOST_ENDPOINTS = 20  # of one user
BOTH_SIGN_FOR = timedelta(hours=24)
CHANGED_AT_ONCE = 500  # in one transaction, where an operator chooses many
LOOK_UP_S = 2.0  # when an address is given; when it is sent to, it is looked up anew in any case

State = Delivery.State
DisabledBy = Endpoint.DisabledBy


@dataclass(frozen=True)
class Issued:
    """An endpoint with the secret that was made for it just now, which is never shown again."""

    endpoint: Endpoint
    secret: str


@dataclass(frozen=True)
class Resealed:
    """How many endpoints have their secrets sealed with today's key, and how many with none that is known."""

    sealed: int
    lost: int


@transaction.atomic(savepoint=False)
def announce(*, user: User, url: str | None, event: str, data: dict[str, Any], now: datetime) -> None:
    """Tell the user's endpoints that want this event, and `url`, which `check_one_off` has checked, where there is one:
    unless the default endpoint, which signs that, was disabled or deleted meanwhile. Call it in the transaction of what
    has happened: the messages are there when it is, and only then."""
    at = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    body = json.dumps({"type": event, "event": event, "timestamp": at, "data": data}, ensure_ascii=False)
    wanting = Endpoint.objects.wanting(user, event)
    told = [(endpoint, endpoint.url) for endpoint in wanting if not endpoint.is_default]
    told += [(endpoint, url) for endpoint in wanting if endpoint.is_default and url is not None]
    Delivery.objects.bulk_create(
        Delivery(
            endpoint=endpoint,
            event=event,
            url=address,
            destination=destination_of(address),
            body=body,
            due_at=now,
            created_at=now,
        )
        for endpoint, address in told
    )


def check_one_off(*, url: str) -> None:
    """Check the `webhook_url` of a request. Raises ApiError 400. It may look a name up, for LOOK_UP_S: call it before
    the transaction that writes."""
    _check_address(url, "webhook_url")


def default_secret(*, user: User, now: datetime) -> str | None:
    """The secret that signs what goes to the user's `webhook_url`s, when it was made just now: the request's answer has
    to show it, for nobody ever sees it again. Call it in the transaction that accepts the request, so that what is
    refused makes no secret. Raises ApiError 400: the user's default endpoint is disabled."""
    endpoint, secret = _default_endpoint(user, now)
    if not endpoint.is_enabled:
        raise _wrong("webhook_url", "Your default webhook is disabled: enable it, or leave webhook_url out.")
    return secret


def create_endpoint(*, user: User, url: str, events: Sequence[str], is_enabled: bool, now: datetime) -> Issued:
    """A new endpoint. Raises ApiError 400: the address is no good or there already, or there are too many."""
    _check_address(url, "url")
    secret = make_secret()
    with transaction.atomic():
        lock_active(user)  # so that they are counted one after the other
        if Endpoint.objects.for_user(user).filter(is_default=False).count() >= MOST_ENDPOINTS:
            raise _wrong("url", f"You have {MOST_ENDPOINTS} webhooks: delete one first.")
        endpoint = Endpoint(
            user=user,
            url=url,
            events=list(dict.fromkeys(events)),
            is_enabled=is_enabled,
            disabled_by="" if is_enabled else DisabledBy.OWNER,
            secret=seal(secret),
            created_at=now,
            updated_at=now,
        )
        _save_new_address(endpoint)
    return Issued(endpoint, secret)


def change_endpoint(
    *,
    user: User,
    endpoint_id: str,
    url: str | None,
    events: Sequence[str] | None,
    is_enabled: bool | None,
    now: datetime,
) -> Endpoint:
    """Changes what is not None. What waits goes to the new address; what waits for an endpoint that is disabled is
    cancelled. Raises ApiError 404, 400."""
    if url is not None:
        _check_address(url, "url")
    with transaction.atomic():
        endpoint = own_endpoint(user=user, endpoint_id=endpoint_id)
        if endpoint.is_default and (url is not None or events is not None):
            field = "events" if url is None else "url"
            raise _wrong(field, "Your default webhook has no address or events of its own.")
        if events is not None:
            endpoint.events = list(dict.fromkeys(events))
        if is_enabled is not None:
            _switch(endpoint, is_enabled, now)
        endpoint.updated_at = now
        if url is not None:
            endpoint.url = url
            endpoint.deliveries.unfinished().update(url=url, destination=destination_of(url))
        _save_new_address(endpoint)
    return endpoint


def delete_endpoint(*, user: User, endpoint_id: str) -> None:
    """It goes with its deliveries; nothing is sent to it any more. Raises ApiError 404; 400 where an operator has
    disabled it, since who deleted it could make it anew."""
    with transaction.atomic():
        endpoint = own_endpoint(user=user, endpoint_id=endpoint_id)
        if endpoint.disabled_by == DisabledBy.OPERATOR:
            raise _wrong("id", "An operator has disabled this webhook: ask them to enable it.")
        list(
            endpoint.deliveries.unfinished().select_for_update().values_list("pk")
        )  # who sends one just now writes its attempt before
        endpoint.delete()


def rotate_secret(*, user: User, endpoint_id: str, now: datetime) -> Issued:
    """A new secret. The one before it signs as well for BOTH_SIGN_FOR. Raises ApiError 404."""
    secret = make_secret()
    with transaction.atomic():
        endpoint = own_endpoint(user=user, endpoint_id=endpoint_id)
        endpoint.previous_secret, endpoint.secret = endpoint.secret, seal(secret)
        endpoint.previous_secret_until = now + BOTH_SIGN_FOR
        endpoint.updated_at = now
        endpoint.save()
    return Issued(endpoint, secret)


def reseal_secrets() -> Resealed:
    """Seals every secret with today's key, so that the keys of before are needed for none. Running it again harms
    nothing, and neither does a rotation meanwhile."""
    sealed = lost = 0
    for endpoint_id in Endpoint.objects.values_list("pk", flat=True):
        with transaction.atomic():
            endpoint = Endpoint.objects.select_for_update().filter(pk=endpoint_id).first()
            if endpoint is None:
                continue
            try:
                endpoint.secret = reseal(endpoint.secret)
                endpoint.previous_secret = endpoint.previous_secret and reseal(endpoint.previous_secret)
            except SecretLost:
                lost += 1
                continue
            endpoint.save(update_fields=["secret", "previous_secret"])
            sealed += 1
    return Resealed(sealed, lost)


def disable_endpoint(*, endpoint: Endpoint, by: Endpoint.DisabledBy, now: datetime) -> None:
    """Nothing is sent there from now on; what waits is cancelled, and can be sent again when it is enabled. What an
    operator has disabled stays the operator's to enable."""
    disable_endpoints(endpoints=[endpoint.pk], by=by, now=now)


def disable_endpoints(*, endpoints: Sequence[int], by: Endpoint.DisabledBy, now: datetime) -> None:
    """`disable_endpoint` of many, by their keys. Each CHANGED_AT_ONCE of them are a transaction of their own."""
    for some in pieces(endpoints):
        with transaction.atomic():
            rows = Endpoint.objects.filter(pk__in=some).exclude(disabled_by=DisabledBy.OPERATOR)
            ours = list(rows.select_for_update().values_list("pk", flat=True))
            Endpoint.objects.filter(pk__in=ours).update(is_enabled=False, disabled_by=by, updated_at=now)
            _cancel_waiting(Delivery.objects.filter(endpoint__in=ours), now)


def enable_endpoints(*, endpoints: Sequence[int], now: datetime) -> None:
    """As an operator does, whoever disabled them."""
    for some in pieces(endpoints):
        Endpoint.objects.filter(pk__in=some).update(is_enabled=True, disabled_by="", updated_at=now)


def pieces(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    """As many as one transaction changes."""
    return (keys[start : start + CHANGED_AT_ONCE] for start in range(0, len(keys), CHANGED_AT_ONCE))


def destination_of(url: str) -> str:
    """host:port. What may not be sent to any more is written down all the same, and refused when it is sent."""
    try:
        return parse_destination(url, allowed=settings.WEBHOOK_ALLOW).authority
    except BadDestination:
        return ""


def own_endpoint(*, user: User, endpoint_id: str) -> Endpoint:
    """The user's endpoint, locked. Raises ApiError 404, for another's too."""
    endpoint = Endpoint.objects.for_user(user).select_for_update().filter(public_id=endpoint_id).first()
    if endpoint is None:
        raise ApiError(404, f"You have no webhook {endpoint_id[:40]!r}.")
    return endpoint


def _switch(endpoint: Endpoint, is_enabled: bool, now: datetime) -> None:
    if endpoint.disabled_by == DisabledBy.OPERATOR:
        raise _wrong("enabled", "An operator has disabled this webhook: ask them to enable it.")
    if is_enabled == endpoint.is_enabled:
        return
    endpoint.is_enabled, endpoint.disabled_by = is_enabled, "" if is_enabled else DisabledBy.OWNER
    if not is_enabled:
        _cancel_waiting(endpoint.deliveries.all(), now)


def _cancel_waiting(deliveries: QuerySet[Delivery], now: datetime) -> None:
    """What is being sent just now ends by itself."""
    deliveries.filter(state=State.PENDING).update(state=State.CANCELLED, due_at=None, finished_at=now)


def _default_endpoint(user: User, now: datetime) -> tuple[Endpoint, str | None]:
    """The user's default endpoint, with its secret where it was made just now."""
    endpoint = Endpoint.objects.for_user(user).filter(is_default=True).first()
    if endpoint is not None:
        return endpoint, None
    secret = make_secret()
    made = {"secret": seal(secret), "created_at": now, "updated_at": now}
    endpoint, is_new = Endpoint.objects.get_or_create(user=user, is_default=True, url="", defaults=made)
    return endpoint, secret if is_new else None


def _save_new_address(endpoint: Endpoint) -> None:
    try:
        with transaction.atomic():
            endpoint.save()
    except IntegrityError:
        raise _wrong("url", "You have a webhook with this address already.") from None


def _check_address(url: str, field: str, resolve: LookUp = look_up) -> None:
    """Raises ApiError 400 for an address that no webhook may go to. A name that is not known, or not soon enough, is
    let through: it may be known when something is sent there, and is checked then."""
    try:
        destination = parse_destination(url, allowed=settings.WEBHOOK_ALLOW)
        if destination.is_exempt:
            return
        found = resolve(destination.host, destination.port)
        if wait([found], LOOK_UP_S).done and found.exception() is None:
            public_addresses(destination, found.result())
    except BadDestination as error:
        raise _wrong(field, str(error)) from None


def _wrong(field: str, message: str) -> ApiError:
    return ApiError(400, message, details={"field": field})
