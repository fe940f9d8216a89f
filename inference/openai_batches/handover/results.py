"""Reading of a member's output and error files, and recording of what they have.

A line that is not final leaves its request pending for our own workers: an error of the server, a line in another form,
a request that was not run. A client's mistake is final.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec
from msgspec import Raw

from inference.batches.models import Batch
from inference.batches.worker.recording import RequestOutcome, record_elsewhere
from inference.openai_batches.input_file import read_lines
from inference.protocol.errors import ErrorCode

PAGE_COUNT = 500
READ_COUNT = 64  # a request may have megabytes
MAX_PAGE_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024  # an answer may be megabytes of vectors
CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"


class _Response(msgspec.Struct):
    status_code: int
    body: Raw


class _Line(msgspec.Struct):
    custom_id: str
    response: _Response | None = None


class _Usage(msgspec.Struct):
    """Token counts of all forms: of chats and embeddings, and of responses and messages."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class _Error(msgspec.Struct):
    message: str = ""
    code: Any = None


class _ErrorBody(msgspec.Struct):
    error: _Error


_lines = msgspec.json.Decoder(_Line)
_usages = msgspec.json.Decoder(_Usage)
_errors = msgspec.json.Decoder(_ErrorBody)
_bodies = msgspec.json.Decoder(dict[str, Raw])


def record_results(
    *, batch_pk: int, model_id: str, chunks: Iterable[bytes], clock: Callable[[], datetime], on_page: Callable[[], None]
) -> None:
    """Record the results of a file in pages, unless the batch ends meanwhile. on_page: called after each."""
    outcomes = _outcomes(chunks, model_id)
    while page := dict(_page(outcomes)):
        is_open = record_elsewhere(batch_pk=batch_pk, outcomes=page, now=clock())
        on_page()
        if not is_open:
            return


def _page(outcomes: Iterator[tuple[int, RequestOutcome]]) -> Iterator[tuple[int, RequestOutcome]]:
    size = 0
    for index, outcome in islice(outcomes, PAGE_COUNT):
        yield index, outcome
        size += len(outcome.answer)
        if size > MAX_PAGE_BYTES:
            return


def _outcomes(chunks: Iterable[bytes], model_id: str) -> Iterator[tuple[int, RequestOutcome]]:
    """Yield the final outcomes of a file, each with the index of its request."""
    for _, line in read_lines(chunks, max_bytes=MAX_LINE_BYTES, max_lines=None):
        if line is None:
            continue
        try:
            found = _lines.decode(line)
            index, outcome = int(found.custom_id), found.response and _outcome(found.response, model_id)
        except (msgspec.DecodeError, ValueError):
            continue
        if outcome:
            yield index, outcome


def _outcome(response: _Response, model_id: str) -> RequestOutcome | None:
    """Return the final outcome of a response. Raise DecodeError if it has another form."""
    if response.status_code == 200:
        body = _bodies.decode(response.body)
        usage = _usages.decode(body.get("usage", Raw(b"{}")))
        if "model" in body:
            body["model"] = Raw(msgspec.json.encode(model_id))
        return RequestOutcome(
            request=0,
            answer=msgspec.json.encode(body).decode(),
            prompt_tokens=max(usage.prompt_tokens or usage.input_tokens, 0),
            completion_tokens=max(usage.completion_tokens or usage.output_tokens, 0),
        )
    if response.status_code not in (400, 422):
        return None
    error = _errors.decode(response.body).error
    code = (
        ErrorCode.CONTEXT_LENGTH_EXCEEDED
        if str(error.code).lower() == CONTEXT_LENGTH_EXCEEDED
        else ErrorCode.INVALID_REQUEST
    )
    return RequestOutcome(request=0, error_code=code, error_message=error.message or "The request is invalid.")


def request_lines(job: Batch, *, endpoint: str, model_name: str) -> Iterator[bytes]:
    """Yield the lines of the member's input file: the pending requests, whose `custom_id` is their index."""
    pending = job.requests.filter(status="pending").order_by("index")
    after = -1
    while page := list(pending.filter(index__gt=after).values_list("index", "body")[:READ_COUNT]):
        for index, text in page:
            body = _bodies.decode(text.encode()) | {"model": Raw(msgspec.json.encode(model_name))}
            line = {"custom_id": str(index), "method": "POST", "url": endpoint, "body": body}
            yield msgspec.json.encode(line) + b"\n"
        after = page[-1][0]
