"""The lines of output and error files, read from the results a page at a time."""

from collections.abc import Iterator
from typing import Any

import msgspec

from inference.batches.models import Batch, BatchRequest, BatchResult
from inference.batches.outcomes import EXPIRED
from inference.protocol.errors import Code, openai_error
from inference.protocol.openai_batches import LineError, LineResponse, OutputLine

A_PAGE = 32  # an answer may be megabytes of vectors

_STATUSES = {
    Code.INVALID_REQUEST: 400,
    Code.CONTEXT_LENGTH_EXCEEDED: 400,
    Code.MODEL_NOT_LOADED: 400,
    Code.AUTHORIZATION_FAILED: 403,
    Code.MODEL_NOT_FOUND: 404,
    Code.TIMEOUT: 503,
}
_NOT_DONE = {
    BatchRequest.Status.CANCELLED: LineError("batch_cancelled", "The batch was cancelled before this was done."),
    BatchRequest.Status.FAILED: LineError("batch_expired", EXPIRED),
}
_encoder = msgspec.json.Encoder()


def output_lines(job: Batch) -> Iterator[bytes]:
    """What was answered, in the order of the input."""
    for request, result in _results(job, [BatchRequest.Status.COMPLETED]):
        if result is not None:
            yield _line(
                job, request, LineResponse(200, _name(job, request, "req"), msgspec.Raw(result.answer.encode()))
            )


def error_lines(job: Batch) -> Iterator[bytes]:
    """What was not answered, and why, in the order of the input."""
    for request, result in _results(job, [BatchRequest.Status.FAILED, BatchRequest.Status.CANCELLED]):
        if result is None or (job.status == Batch.Status.EXPIRED and result.error_message == EXPIRED):
            yield _line(job, request, None, _NOT_DONE[BatchRequest.Status(request.status)])
        else:
            yield _line(job, request, _failure(job, request, result))


def _failure(job: Batch, request: BatchRequest, result: BatchResult) -> LineResponse:
    code = result.error_code
    status = _STATUSES.get(Code(code), 500) if code in Code.__members__ else 500
    return LineResponse(status, _name(job, request, "req"), openai_error(code, result.error_message, status))


def _line(job: Batch, request: BatchRequest, response: LineResponse | None, error: LineError | None = None) -> bytes:
    line = OutputLine(_name(job, request, "batch_req"), request.custom_id, response, error)
    return _encoder.encode(line) + b"\n"


def _name(job: Batch, request: BatchRequest, kind: str) -> str:
    """Nobody logs it: it names the request, and is the same however often the files are written."""
    return f"{kind}_{job.batch_id.removeprefix('batch_')}_{request.index}"


def _results(job: Batch, statuses: list[Any]) -> Iterator[tuple[BatchRequest, BatchResult | None]]:
    """Page by page of the input: nothing is held open while files are written, and every database takes its index."""
    requests = BatchRequest.objects.filter(batch=job, status__in=statuses).defer("body").select_related("result")
    for start in range(0, job.total, A_PAGE):
        for request in requests.filter(index__gte=start, index__lt=start + A_PAGE).order_by("index"):
            yield request, getattr(request, "result", None)
