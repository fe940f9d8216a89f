"""Reads of batches and their results, as database rows and as the wire forms of /batch.

Results are read a page at a time, in the order of the requests, so that memory holds one page only.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Length

from inference.access.responses import ObjectNotFound
from inference.batches.models import Batch, BatchRequest
from inference.protocol.errors import ErrorCode
from inference.protocol.native.batches import (
    BatchError,
    BatchItemResult,
    BatchList,
    BatchListQuery,
    BatchResultsPage,
    BatchResultsQuery,
    BatchState,
    BatchStatusResponse,
    BatchUsage,
    results_url,
)
from shared.accounts.models import User

PAGE_SIZE = 500
_LISTED = {"choices", "data"}  # one of them is in the answers of all kinds but responses and messages
MAX_PAGE_LENGTH = 4 * 1024 * 1024  # characters of answers; further results wait for the next page


@dataclass(frozen=True)
class ResultPage:
    """Finished requests in order. is_last: the batch has ended and no result follows."""

    requests: list[BatchRequest]
    is_last: bool


def find_batch(*, user: User, batch_id: str) -> Batch:
    """Return one of the user's batches. Raises ApiError 404, for another user's too."""
    batch = Batch.objects.for_user(user).filter(batch_id=batch_id.replace("\x00", "")).first()
    if batch is None:
        raise ObjectNotFound("batch", batch_id)
    return batch


def list_batches(*, user: User, query: BatchListQuery) -> BatchList:
    """Return a page of the user's batches, newest first. Raises ApiError 404 if `after` is not one of them."""
    batches = Batch.objects.for_user(user)
    if query.status:
        batches = batches.filter(status=query.status)
    if query.after:
        batches = batches.filter(pk__lt=find_batch(user=user, batch_id=query.after).pk)
    found = list(batches[: query.limit + 1])
    page = found[: query.limit]
    return BatchList(
        batches=[serialize_batch(batch) for batch in page],
        next=page[-1].batch_id if len(found) > len(page) else None,
    )


def list_results(*, batch: Batch, query: BatchResultsQuery) -> BatchResultsPage:
    """Return a page of results. The counts are read after the results, so they include every result of the page."""
    page = read_results(batch, after=query.after, limit=query.limit)
    batch.refresh_from_db()
    return BatchResultsPage(
        batch_id=batch.batch_id,
        status=BatchState(batch.status),
        model=batch.model_id,
        total=batch.total,
        completed=batch.completed,
        failed=batch.failed,
        results=[serialize_result(request) for request in page.requests],
        next=None if page.is_last else page.requests[-1].index if page.requests else query.after,
    )


def read_results(batch: Batch, *, after: int, limit: int = PAGE_SIZE) -> ResultPage:
    """Return the finished requests after the index `after`, up to the first unfinished one.

    Whether the batch has ended is read first, so that a result that arrives meanwhile is not missed.
    """
    has_ended = Batch.objects.filter(pk=batch.pk, ended_at__isnull=False).exists()
    finished = BatchRequest.objects.filter(
        batch=batch, index__gt=after, status__in=[BatchRequest.Status.COMPLETED, BatchRequest.Status.FAILED]
    )
    if not has_ended and (first := _first_unfinished_index(batch)) is not None:
        finished = finished.filter(index__lt=first)
    candidates = finished.order_by("index").values_list("pk", Length("result__answer"))[: limit + 1]
    keys, is_complete = _fit_page(candidates, limit)
    requests = BatchRequest.objects.filter(pk__in=keys).select_related("result").defer("body").order_by("index")
    return ResultPage(list(requests), is_last=has_ended and is_complete)


def failed_requests(batch: Batch) -> "QuerySet[BatchRequest]":
    """Return the failed requests in order, with their results."""
    failed = BatchRequest.objects.filter(batch=batch, status=BatchRequest.Status.FAILED)
    return failed.select_related("result").order_by("index")


def serialize_batch(batch: Batch) -> BatchStatusResponse:
    """Return the batch's wire form."""
    tokens = batch.prompt_tokens, batch.completion_tokens
    return BatchStatusResponse(
        batch_id=batch.batch_id,
        status=BatchState(batch.status),
        completed=batch.completed,
        failed=batch.failed,
        total=batch.total,
        results_url=results_url(batch.batch_id),
        model=batch.model_id,
        created=int(batch.created_at.timestamp()),
        expires=int(batch.expires_at.timestamp()),
        ended=int(batch.ended_at.timestamp()) if batch.ended_at else None,
        usage=BatchUsage(*tokens, sum(tokens)),
    )


def serialize_result(request: BatchRequest) -> BatchItemResult:
    """Return the wire form of a finished request; its answer is passed on as stored."""
    result = request.result
    answer: dict[str, Any] = msgspec.json.decode(result.answer, type=dict[str, msgspec.Raw]) if result.answer else {}
    is_whole = bool(answer) and answer.keys().isdisjoint(_LISTED)
    return BatchItemResult(
        id=request.custom_id,
        index=request.index,
        status="failed" if result.error_code else "completed",
        choices=answer.get("choices"),
        usage=None if is_whole else answer.get("usage"),
        error=BatchError(ErrorCode(result.error_code), result.error_message) if result.error_code else None,
        processing_time_ms=result.processing_time_ms,
        data=answer.get("data", msgspec.UNSET),
        body=msgspec.json.decode(result.answer) if is_whole else msgspec.UNSET,
    )


def _first_unfinished_index(batch: Batch) -> int | None:
    """Return the smallest index of a pending or running request.

    Uses three lookups in small partial indexes, whatever the size of the batch. They form one statement, since a
    request may move between pending and running meanwhile.
    """
    requests = BatchRequest.objects.filter(batch=OuterRef("pk")).order_by("index").values("index")
    pending = requests.filter(status=BatchRequest.Status.PENDING)
    lookups = (
        pending.filter(is_isolated=False),
        pending.filter(is_isolated=True),
        requests.filter(lease__isnull=False),
    )
    found = Batch.objects.filter(pk=batch.pk).values_list(*(Subquery(lookup[:1]) for lookup in lookups)).get()
    return min((index for index in found if index is not None), default=None)


def _fit_page(candidates: Iterable[tuple[int, int]], limit: int) -> tuple[list[int], bool]:
    """Return the first keys whose answers fit into a page, at least one, and whether these are all candidates.

    candidates: keys of requests with the lengths of their answers.
    """
    keys: list[int] = []
    size = 0
    for key, length in candidates:
        size += length
        if len(keys) == limit or (keys and size > MAX_PAGE_LENGTH):
            return keys, False
        keys.append(key)
    return keys, True
