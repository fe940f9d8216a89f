"""Idempotency-Key: a POST that is sent again with its key is answered again, and not done again.

A key belongs to a user, a method and a path. Its first run claims it in a row of its own, which others see at once.
What the run changes and its answer are committed together, so that a crash leaves either both or neither; a key whose
run died can be claimed anew after a while, and a run that comes late then undoes itself. A view may say otherwise by
its attribute `idempotency`.
"""

import hashlib
import time
import uuid
from datetime import datetime, timedelta
from enum import StrEnum

import structlog
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import QuerySet, Sum
from django.http import HttpResponse
from django.http.response import HttpResponseBase

from shared.api.errors import ApiError, ValidationFailed
from shared.api.idempotency.fingerprints import keyed_fingerprints
from shared.api.models import KeyedRequest

MAX_KEY_LENGTH = 255
RETENTION = timedelta(hours=24)
CLAIM_TIMEOUT = timedelta(minutes=2)  # after it, whoever claimed the key counts as dead
MAX_WAIT_SECONDS = 5.0
POLL_SECONDS = 0.05
RETRY_AFTER_SECONDS = 5
MAX_DELETED_PER_REQUEST = 100
STORED_ERROR_STATUSES = frozenset({404, 409, 422})  # what was understood, looked at, and refused
DISCARDED_STATUS = 410  # the status of an answer that had to make room; no other has it
# What a user has in all is summed for each large answer, and for every so many-th small one.
LARGE_RESPONSE_BYTES = 64 * 1024
STORAGE_CHECK_INTERVAL = 64
MAX_DISCARDED_PER_RUN = 10_000

logger = structlog.get_logger(__name__)


class IdempotencyMode(StrEnum):
    """How a view's answers are kept: with its changes, in one transaction; after them, for views that take long and
    would hold the database's write lock; or not at all, for answers that hold credentials or are streams."""

    ATOMIC = "atomic"
    DEFERRED = "deferred"
    DISABLED = "disabled"


def idempotency_scope(*, who: str, method: str, path: str, key: str) -> str:
    """What one key stands for. Raises ValidationFailed for a key that is empty, too long or not printable."""
    if not (0 < len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable()):
        raise ValidationFailed({"Idempotency-Key": [f"Send 1 to {MAX_KEY_LENGTH} printable ASCII characters."]})
    return hashlib.sha256(repr((who, method, path, key)).encode()).hexdigest()


def claim_key(*, scope: str, fingerprint: str, now: datetime, user_id: int | None = None) -> KeyedRequest:
    """The key's row: answered (`status` is set), or the caller's to run. Waits while another runs.

    Raises ValidationFailed for a key that came with another body, and ApiError 409 when the other takes too long.
    """
    delete_expired_keys(scope=scope, now=now)
    until = time.monotonic() + MAX_WAIT_SECONDS
    while (row := try_claim_key(scope=scope, fingerprint=fingerprint, now=now, user_id=user_id)) is None:
        if time.monotonic() >= until:
            raise in_progress_error()
        time.sleep(POLL_SECONDS)
    return row


def try_claim_key(*, scope: str, fingerprint: str, now: datetime, user_id: int | None = None) -> KeyedRequest | None:
    """`claim_key` that does not wait: None while another runs."""
    forms = keyed_fingerprints(fingerprint)
    mine = {
        "fingerprint": forms[0], "owner": uuid.uuid4(), "claimed_at": now, "created_at": now, "user_id": user_id
    }  # fmt: skip
    row, made = KeyedRequest.objects.get_or_create(scope=scope, defaults=mine)
    if row.fingerprint not in forms:
        raise ValidationFailed({"Idempotency-Key": ["This key came with another body before. Send a new key."]})
    if row.status == DISCARDED_STATUS:
        message = "What this key asked for was done, and the answer is no longer kept. Send a new key to do it again."
        raise ValidationFailed({"Idempotency-Key": [message]})
    return row if made or row.status is not None or _take_over(row, now) else None


def in_progress_error() -> ApiError:
    """409: another request with the same key has not ended."""
    return ApiError(
        409,
        "A request with this Idempotency-Key still runs. Send it again.",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


def renew_claim(*, row: KeyedRequest, now: datetime) -> None:
    """The caller's run takes longer than CLAIM_TIMEOUT, and is not dead."""
    KeyedRequest.objects.filter(pk=row.pk, owner=row.owner, status=None).update(claimed_at=now)


def store_response(*, row: KeyedRequest, response: HttpResponseBase) -> bool:
    """Keeps an answer that is worth keeping; says whether it did. Raises ApiError 409 when the key is no longer the
    caller's, so that whatever the caller has done in this transaction is undone."""
    if not isinstance(response, HttpResponse) or not _is_storable(response.status_code):
        return False
    if transaction.get_connection().needs_rollback:
        return False
    kept = KeyedRequest.objects.filter(pk=row.pk, owner=row.owner, status=None).update(
        status=response.status_code,
        content_type=response.headers.get("Content-Type", ""),
        body=response.content,
        size=len(response.content),
    )
    if not kept:
        raise ApiError(409, "This request took too long, and another with its Idempotency-Key took its place.")
    return True


def enforce_storage_limit(*, row: KeyedRequest, response: HttpResponseBase) -> None:
    """Discard the oldest responses of the row's user above MAX_IDEMPOTENT_RESPONSE_BYTES_PER_USER.

    Their keys stay, so that nothing is done twice. Call it after the transaction of `store_response`.
    """
    large = isinstance(response, HttpResponse) and len(response.content) >= LARGE_RESPONSE_BYTES
    if row.user_id is None or not (large or row.pk % STORAGE_CHECK_INTERVAL == 0):
        return
    try:
        _discard_oldest(KeyedRequest.objects.filter(user_id=row.user_id, size__gt=0))
    except DatabaseError as error:  # the next one makes room
        logger.warning("no_room_made_for_answers", reason=type(error).__name__)


def _discard_oldest(kept: QuerySet[KeyedRequest]) -> None:
    surplus = kept.aggregate(total=Sum("size", default=0))["total"] - settings.MAX_IDEMPOTENT_RESPONSE_BYTES_PER_USER
    if surplus <= 0:
        return
    for created_at, size in kept.order_by("created_at").values_list("created_at", "size")[:MAX_DISCARDED_PER_RUN]:
        until, surplus = created_at, surplus - size
        if surplus <= 0:
            break
    kept.filter(created_at__lte=until).update(status=DISCARDED_STATUS, content_type="", body=b"", size=0)


def release_claim(*, row: KeyedRequest) -> None:
    """Gives the key back, unless it has an answer or another owner."""
    KeyedRequest.objects.filter(pk=row.pk, owner=row.owner, status=None).delete()


def _is_storable(status: int) -> bool:
    return 200 <= status < 300 or status in STORED_ERROR_STATUSES


def _take_over(row: KeyedRequest, now: datetime) -> bool:
    """Whether the row's run must have died, and its key is the caller's from now on."""
    if row.claimed_at > now - CLAIM_TIMEOUT:
        return False
    owner = uuid.uuid4()
    taken = KeyedRequest.objects.filter(pk=row.pk, owner=row.owner, status=None).update(owner=owner, claimed_at=now)
    row.owner = owner
    return bool(taken)


def delete_expired_keys(*, scope: str, now: datetime) -> None:
    """Forgets this key if its day is over, and some others whose day is."""
    old = KeyedRequest.objects.filter(created_at__lte=now - RETENTION)
    ids = [
        *old.filter(scope=scope).values_list("pk", flat=True),
        *old.values_list("pk", flat=True)[:MAX_DELETED_PER_REQUEST],
    ]
    if ids:
        KeyedRequest.objects.filter(pk__in=ids).delete()
