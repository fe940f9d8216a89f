"""What came of a batch, in the order of its requests: read in pieces, so that nothing is held in memory."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Length

from inference.batches.models import Batch, BatchRequest
from inference.protocol.batch import BatchError, BatchResult
from inference.protocol.errors import Code

READ_AT_ONCE = 500
LARGEST_PIECE = 4 * 1024 * 1024  # characters of answers; more results wait for the next piece


@dataclass(frozen=True)
class Piece:
    """Some results in order, without a gap but where the batch has ended without them. is_last: of all."""

    requests: list[BatchRequest]
    is_last: bool


def read_piece(batch: Batch, *, after: int, limit: int = READ_AT_ONCE) -> Piece:
    """The next finished requests behind the index `after`, with their results, up to the first that is not finished.
    Whether the batch has ended is looked up before, so that none that came meanwhile is taken for the last."""
    has_ended = Batch.objects.filter(pk=batch.pk, ended_at__isnull=False).exists()
    finished = BatchRequest.objects.filter(
        batch=batch, index__gt=after, status__in=[BatchRequest.Status.COMPLETED, BatchRequest.Status.FAILED]
    )
    if not has_ended and (first := _first_unfinished(batch)) is not None:
        finished = finished.filter(index__lt=first)
    chosen = _bounded(finished.order_by("index").values_list("pk", Length("result__answer"))[: limit + 1], limit)
    requests = BatchRequest.objects.filter(pk__in=chosen.keys).select_related("result").defer("body").order_by("index")
    return Piece(list(requests), is_last=has_ended and chosen.is_rest)


def failed_requests(batch: Batch) -> "QuerySet[BatchRequest]":
    """Those that failed, in order, with why."""
    failed = BatchRequest.objects.filter(batch=batch, status=BatchRequest.Status.FAILED)
    return failed.select_related("result").order_by("index")


def wire_result(request: BatchRequest) -> BatchResult:
    """A finished request as it is told; its answer is passed on as it is stored."""
    stored = request.result
    answer: dict[str, Any] = msgspec.json.decode(stored.answer, type=dict[str, msgspec.Raw]) if stored.answer else {}
    return BatchResult(
        id=request.custom_id,
        index=request.index,
        status="failed" if stored.error_code else "completed",
        choices=answer.get("choices"),
        usage=answer.get("usage"),
        error=BatchError(Code(stored.error_code), stored.error_message) if stored.error_code else None,
        processing_time_ms=stored.processing_time_ms,
        data=answer.get("data", msgspec.UNSET),
    )


def _first_unfinished(batch: Batch) -> int | None:
    """Three looks into small indexes, whatever the size of the batch; in one statement, since requests go to and fro
    between them."""
    requests = BatchRequest.objects.filter(batch=OuterRef("pk")).order_by("index").values("index")
    pending = requests.filter(status=BatchRequest.Status.PENDING)
    looks = (pending.filter(is_lonely=False), pending.filter(is_lonely=True), requests.filter(lease__isnull=False))
    found = Batch.objects.filter(pk=batch.pk).values_list(*(Subquery(look[:1]) for look in looks)).get()
    return min((index for index in found if index is not None), default=None)


@dataclass(frozen=True)
class _Chosen:
    """Keys of requests, in order. is_rest: they are all that were offered."""

    keys: list[int]
    is_rest: bool


def _bounded(offered: Iterable[tuple[int, int]], limit: int) -> _Chosen:
    """The first of these keys with the lengths of their answers: one at least, and no more than fit into a piece."""
    keys: list[int] = []
    size = 0
    for key, length in offered:
        size += length
        if len(keys) == limit or (keys and size > LARGEST_PIECE):
            return _Chosen(keys, is_rest=False)
        keys.append(key)
    return _Chosen(keys, is_rest=True)
