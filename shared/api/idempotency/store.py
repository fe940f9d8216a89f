"""Storage of responses by Idempotency-Key: a POST that is repeated with its key gets the same response without being
run again.

A key belongs to a user, a method and a path. Its first run claims it in a row of its own, which others see at once. The
run's changes and its response are committed together, so a crash leaves both or neither. If a run dies, its key can be
claimed again after CLAIM_TIMEOUT, and a run that comes late rolls back. The attribute `idempotency` of a view may
choose another mode. A DEFERRED view that creates something calls
`store_keyed_response` in its transaction.
"""

import hashlib
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import count

import structlog
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from shared.api.errors import ApiError, ValidationFailed
from shared.api.idempotency.fingerprints import keyed_fingerprints
from shared.api.models import KeyedRequest
from shared.backoff import Backoff

MAX_KEY_LENGTH = 255
RETENTION = timedelta(hours=24)
# After this the run that claimed the key is taken for dead, or the database did not hear of its end.
CLAIM_TIMEOUT = timedelta(seconds=45)
MAX_WAIT_SECONDS = 5.0
POLLING = Backoff(first_seconds=0.05, max_seconds=0.8)  # of a waiting request
MAX_WAITERS_PER_KEY = 16  # in one process; further requests with the key are refused at once
MAX_WAITERS_PER_USER = 64
RETRY_AFTER_SECONDS = 5
MAX_DELETED_PER_REQUEST = 100
STORED_ERROR_STATUSES = frozenset({404, 409, 422})  # valid requests that were refused
DISCARDED_STATUS = 410  # status of a response that was discarded for space; no real one has it
# A user's total size is computed for each large response, and for one in this many small ones.
LARGE_RESPONSE_BYTES = 64 * 1024
STORAGE_CHECK_INTERVAL = 64
MAX_DISCARDED_PER_RUN = 10_000

logger = structlog.get_logger(__name__)


class IdempotencyMode(StrEnum):
    """Mode in which a view's responses are stored.

    With the changes, in one transaction; afterwards, for views that run long and would hold the database's write lock;
    or never, for responses that are streams or contain credentials.
    """

    ATOMIC = "atomic"
    DEFERRED = "deferred"
    DISABLED = "disabled"


def idempotency_scope(*, who: str, method: str, path: str, key: str) -> str:
    """Return the digest that identifies a key of a user, method and path.

    Raise ValidationFailed if the key is empty, too long or not printable.
    """
    if not (0 < len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable()):
        raise ValidationFailed({"Idempotency-Key": [f"Send 1 to {MAX_KEY_LENGTH} printable ASCII characters."]})
    return hashlib.sha256(repr((who, method, path, key)).encode()).hexdigest()


class KeyWaiters:
    """Counter of the requests of this process that wait while another one with their key runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str | int] = Counter()

    @contextmanager
    def wait(self, *, scope: str, user_id: int | None) -> Iterator[Iterator[float]]:
        """Count the request in the block, which gets the seconds to sleep before each further attempt.

        Raise ApiError 409 at once if too many wait for the same key or for keys of the same user, and after
        MAX_WAIT_SECONDS when no attempt has ended the block.
        """
        limits: dict[str | int, int] = {scope: MAX_WAITERS_PER_KEY}
        if user_id is not None:
            limits[user_id] = MAX_WAITERS_PER_USER
        with self._lock:
            if any(self._counts[name] >= limit for name, limit in limits.items()):
                raise in_progress_error()
            self._counts.update(limits.keys())
        try:
            yield _pauses()
        finally:
            with self._lock:
                self._counts.subtract(limits.keys())
                for name in limits:
                    if not self._counts[name]:
                        del self._counts[name]


key_waiters = KeyWaiters()


def _pauses() -> Iterator[float]:
    until = time.monotonic() + MAX_WAIT_SECONDS
    for attempt in count(1):
        if time.monotonic() >= until:
            raise in_progress_error()
        yield POLLING.seconds(attempt)


def try_claim_key(*, scope: str, fingerprint: str, now: datetime, user_id: int | None = None) -> KeyedRequest | None:
    """Return the row of the key: with a response (`status` is set), or claimed for the caller to run.

    Return None while another request runs. Raise ValidationFailed if the key was used with another body.
    """
    forms = keyed_fingerprints(fingerprint)
    mine = {
        "fingerprint": forms[0], "owner": uuid.uuid4(), "claimed_at": now, "created_at": now, "user_id": user_id
    }  # fmt: skip
    row, made = KeyedRequest.objects.get_or_create(scope=scope, defaults=mine)
    if row.fingerprint not in forms:
        raise ValidationFailed({"Idempotency-Key": ["This key was used with another body. Send a new key."]})
    if row.status == DISCARDED_STATUS:
        message = "The request was carried out, but its response is no longer stored. Send a new key to repeat it."
        raise ValidationFailed({"Idempotency-Key": [message]})
    return row if made or row.status is not None or _take_over(row, now) else None


def in_progress_error() -> ApiError:
    """Return the 409 for a key whose first request is still running."""
    return ApiError(
        409,
        "A request with this Idempotency-Key is still running. Try again later.",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


def renew_claim(*, row: KeyedRequest, now: datetime) -> bool:
    """Extend the claim of a run that takes longer than CLAIM_TIMEOUT. Return False if another run has the key."""
    return bool(KeyedRequest.objects.filter(pk=row.pk, owner=row.owner, status=None).update(claimed_at=now))


def store_response(*, row: KeyedRequest, response: HttpResponseBase) -> bool:
    """Store a response that is worth storing, and return whether it was stored.

    Raise ApiError 409 if another run has taken over the key, so that the changes of this transaction are rolled back.
    """
    if not isinstance(response, HttpResponse) or not _is_storable(response.status_code):
        return False
    if transaction.get_connection().needs_rollback:
        return False
    is_stored = KeyedRequest.objects.filter(pk=row.pk, owner=row.owner, status=None).update(
        status=response.status_code,
        content_type=response.headers.get("Content-Type", ""),
        body=response.content,
        size=len(response.content),
    )
    if not is_stored:
        raise _replaced_error()
    row.status = response.status_code
    return True


def store_keyed_response(request: HttpRequest, response: HttpResponse) -> None:
    """Store the response of a request in the caller's transaction, if it has a key that was claimed for it."""
    if row := getattr(request, "keyed_request", None):
        store_response(row=row, response=response)


def _replaced_error() -> ApiError:
    return ApiError(409, "This request took too long, and another request with its Idempotency-Key replaced it.")


def enforce_storage_limit(*, row: KeyedRequest, response: HttpResponseBase) -> None:
    """Discard the oldest responses of the row's user above MAX_IDEMPOTENT_RESPONSE_BYTES_PER_USER.

    Their keys stay, so that nothing is done twice. Call it after the transaction of `store_response`.
    """
    large = isinstance(response, HttpResponse) and len(response.content) >= LARGE_RESPONSE_BYTES
    if row.user_id is None or not (large or row.pk % STORAGE_CHECK_INTERVAL == 0):
        return
    try:
        _discard_oldest(KeyedRequest.objects.filter(user_id=row.user_id, size__gt=0))
    except DatabaseError as error:  # the next response frees the space
        logger.warning("idempotent_responses_not_discarded", reason=type(error).__name__)


def _discard_oldest(stored: QuerySet[KeyedRequest]) -> None:
    surplus = stored.aggregate(total=Sum("size", default=0))["total"] - settings.MAX_IDEMPOTENT_RESPONSE_BYTES_PER_USER
    if surplus <= 0:
        return
    for created_at, size in stored.order_by("created_at").values_list("created_at", "size")[:MAX_DISCARDED_PER_RUN]:
        until, surplus = created_at, surplus - size
        if surplus <= 0:
            break
    stored.filter(created_at__lte=until).update(status=DISCARDED_STATUS, content_type="", body=b"", size=0)


def release_claim(*, row: KeyedRequest) -> None:
    """Release the key, unless it has a response or another owner."""
    KeyedRequest.objects.filter(pk=row.pk, owner=row.owner, status=None).delete()


def _is_storable(status: int) -> bool:
    return 200 <= status < 300 or status in STORED_ERROR_STATUSES


def _take_over(row: KeyedRequest, now: datetime) -> bool:
    """Return whether the row's run has died, and claim the key for the caller if so."""
    if row.claimed_at > now - CLAIM_TIMEOUT:
        return False
    owner = uuid.uuid4()
    unchanged = KeyedRequest.objects.filter(pk=row.pk, owner=row.owner, claimed_at=row.claimed_at, status=None)
    is_taken_over = unchanged.update(owner=owner, claimed_at=now)
    row.owner = owner
    return bool(is_taken_over)


def delete_expired_keys(*, scope: str, now: datetime) -> None:
    """Delete this key if it has expired, and some other expired keys."""
    old = KeyedRequest.objects.filter(created_at__lte=now - RETENTION)
    ids = [
        *old.filter(scope=scope).values_list("pk", flat=True),
        *old.values_list("pk", flat=True)[:MAX_DELETED_PER_REQUEST],
    ]
    if ids:
        KeyedRequest.objects.filter(pk__in=ids).delete()
