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
from shared.api.fingerprints import kept_forms
from shared.api.models import KeyedRequest

LONGEST_KEY = 255
KEPT_FOR = timedelta(hours=24)
LONGEST_RUN = timedelta(minutes=2)  # after it, whoever claimed the key counts as dead
LONGEST_WAIT_S = 5.0
LOOK_EVERY_S = 0.05
RETRY_S = 5
FORGOTTEN_AT_ONCE = 100
KEPT_REFUSALS = frozenset({404, 409, 422})  # what was understood, looked at, and refused
DROPPED = 410  # the status of an answer that had to make room; no other has it
# What a user has in all is summed for each large answer, and for every so many-th small one.
LARGE = 64 * 1024
SUMMED_EVERY = 64
DROPPED_AT_ONCE = 10_000

logger = structlog.get_logger(__name__)


class Idempotency(StrEnum):
    """How a view's answers are kept: with its changes, in one transaction; after them, for views that take long and
    would hold the database's write lock; or not at all, for answers that hold credentials or are streams."""

    TOGETHER = "together"
    AFTERWARDS = "afterwards"
    NEVER = "never"


def scope_of(*, who: str, method: str, path: str, key: str) -> str:
    """What one key stands for. Raises ValidationFailed for a key that is empty, too long or not printable."""
    if not (0 < len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise ValidationFailed({"Idempotency-Key": [f"Send 1 to {LONGEST_KEY} printable ASCII characters."]})
    return hashlib.sha256(repr((who, method, path, key)).encode()).hexdigest()


def claim(*, scope: str, fingerprint: str, now: datetime, user_id: int | None = None) -> KeyedRequest:
    """The key's row: answered (`status` is set), or the caller's to run. Waits while another runs.

    Raises ValidationFailed for a key that came with another body, and ApiError 409 when the other takes too long.
    """
    forget(scope=scope, now=now)
    until = time.monotonic() + LONGEST_WAIT_S
    while (row := try_to_claim(scope=scope, fingerprint=fingerprint, now=now, user_id=user_id)) is None:
        if time.monotonic() >= until:
            raise still_runs()
        time.sleep(LOOK_EVERY_S)
    return row


def try_to_claim(*, scope: str, fingerprint: str, now: datetime, user_id: int | None = None) -> KeyedRequest | None:
    """`claim` that does not wait: None while another runs."""
    forms = kept_forms(fingerprint)
    mine = {
        "fingerprint": forms[0], "owner": uuid.uuid4(), "claimed_at": now, "created_at": now, "user_id": user_id
    }  # fmt: skip
    row, made = KeyedRequest.objects.get_or_create(scope=scope, defaults=mine)
    if row.fingerprint not in forms:
        raise ValidationFailed({"Idempotency-Key": ["This key came with another body before. Send a new key."]})
    if row.status == DROPPED:
        message = "What this key asked for was done, and the answer is no longer kept. Send a new key to do it again."
        raise ValidationFailed({"Idempotency-Key": [message]})
    return row if made or row.status is not None or _takes_over(row, now) else None


def still_runs() -> ApiError:
    """409: another request with the same key has not ended."""
    return ApiError(
        409, "A request with this Idempotency-Key still runs. Send it again.", headers={"Retry-After": str(RETRY_S)}
    )


def renew(*, row: KeyedRequest, now: datetime) -> None:
    """The caller's run takes longer than LONGEST_RUN, and is not dead."""
    KeyedRequest.objects.filter(pk=row.pk, owner=row.owner, status=None).update(claimed_at=now)


def keep(*, row: KeyedRequest, response: HttpResponseBase) -> bool:
    """Keeps an answer that is worth keeping; says whether it did. Raises ApiError 409 when the key is no longer the
    caller's, so that whatever the caller has done in this transaction is undone."""
    if not isinstance(response, HttpResponse) or not _is_worth_keeping(response.status_code):
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


def make_room(*, row: KeyedRequest, response: HttpResponseBase) -> None:
    """After `keep`, and its transaction: past KEPT_ANSWERS_PER_USER the oldest answers of the row's user go. Their keys
    stay, so that nothing is done twice."""
    large = isinstance(response, HttpResponse) and len(response.content) >= LARGE
    if row.user_id is None or not (large or row.pk % SUMMED_EVERY == 0):
        return
    try:
        _drop_oldest(KeyedRequest.objects.filter(user_id=row.user_id, size__gt=0))
    except DatabaseError as error:  # the next one makes room
        logger.warning("no_room_made_for_answers", reason=type(error).__name__)


def _drop_oldest(kept: QuerySet[KeyedRequest]) -> None:
    surplus = kept.aggregate(total=Sum("size", default=0))["total"] - settings.KEPT_ANSWERS_PER_USER
    if surplus <= 0:
        return
    for created_at, size in kept.order_by("created_at").values_list("created_at", "size")[:DROPPED_AT_ONCE]:
        until, surplus = created_at, surplus - size
        if surplus <= 0:
            break
    kept.filter(created_at__lte=until).update(status=DROPPED, content_type="", body=b"", size=0)


def release(*, row: KeyedRequest) -> None:
    """Gives the key back, unless it has an answer or another owner."""
    KeyedRequest.objects.filter(pk=row.pk, owner=row.owner, status=None).delete()


def _is_worth_keeping(status: int) -> bool:
    return 200 <= status < 300 or status in KEPT_REFUSALS


def _takes_over(row: KeyedRequest, now: datetime) -> bool:
    """Whether the row's run must have died, and its key is the caller's from now on."""
    if row.claimed_at > now - LONGEST_RUN:
        return False
    owner = uuid.uuid4()
    taken = KeyedRequest.objects.filter(pk=row.pk, owner=row.owner, status=None).update(owner=owner, claimed_at=now)
    row.owner = owner
    return bool(taken)


def forget(*, scope: str, now: datetime) -> None:
    """Forgets this key if its day is over, and some others whose day is."""
    old = KeyedRequest.objects.filter(created_at__lte=now - KEPT_FOR)
    ids = [*old.filter(scope=scope).values_list("pk", flat=True), *old.values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE]]
    if ids:
        KeyedRequest.objects.filter(pk__in=ids).delete()
