"""Reading of a member's output and error files, and recording of what they have.

A line that is not final leaves its request pending for our own workers: an error of the server, a line in another form,
an answer without usage, a request that was not run. A client's mistake is final.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice

import msgspec
from msgspec import Raw

from inference.batches.models import Batch
from inference.batches.worker.recording import RequestOutcome, record_elsewhere
from inference.openai_batches.input_file import read_lines
from inference.protocol.errors import ErrorCode
from inference.remote.errors import parse_error
from inference.remote.responses import TokenCount

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


class _TokenDetails(msgspec.Struct):
    cached_tokens: TokenCount | None = None


class _Usage(msgspec.Struct):
    """Token counts of all forms: of chats and embeddings, of responses, and of messages.

    The input of messages is without what a cache had.
    """

    prompt_tokens: TokenCount = 0
    completion_tokens: TokenCount = 0
    input_tokens: TokenCount = 0
    output_tokens: TokenCount = 0
    cache_read_input_tokens: TokenCount | None = None
    cache_creation_input_tokens: TokenCount | None = None
    prompt_tokens_details: _TokenDetails | None = None
    input_tokens_details: _TokenDetails | None = None

    @property
    def prompt(self) -> int:
        cached = (self.cache_read_input_tokens or 0) + (self.cache_creation_input_tokens or 0)
        return self.prompt_tokens or self.input_tokens + cached

    @property
    def cached(self) -> int:
        details = self.prompt_tokens_details or self.input_tokens_details
        return (details.cached_tokens if details else self.cache_read_input_tokens) or 0


# The field of an answer that has what the model computed.
_FIELDS = {
    Batch.Kind.CHAT: "choices",
    Batch.Kind.COMPLETION: "choices",
    Batch.Kind.EMBEDDING: "data",
    Batch.Kind.RESPONSE: "output",
    Batch.Kind.MESSAGE: "content",
}
_MISSING = Raw(b"null")
_lines = msgspec.json.Decoder(_Line)
_usages = msgspec.json.Decoder(_Usage)
_arrays = msgspec.json.Decoder(list[Raw])
_bodies = msgspec.json.Decoder(dict[str, Raw])


def record_results(
    job: Batch, chunks: Iterable[bytes], *, api_key: str, clock: Callable[[], datetime], on_recorded: Callable[[], None]
) -> None:
    """Record the results of a file in pages, unless the batch ends meanwhile. on_recorded: called after new ones.

    api_key: of the member, which its errors may quote.

    Raise TooManyLines for a file with far more lines than the batch has requests.
    """
    outcomes = _outcomes(job, chunks, api_key)
    while page := dict(_page(outcomes)):
        count = record_elsewhere(batch_pk=job.pk, outcomes=page, now=clock())
        if count is None:
            return
        if count:
            on_recorded()


def _page(outcomes: Iterator[tuple[int, RequestOutcome]]) -> Iterator[tuple[int, RequestOutcome]]:
    size = 0
    for index, outcome in islice(outcomes, PAGE_COUNT):
        yield index, outcome
        size += len(outcome.answer)
        if size > MAX_PAGE_BYTES:
            return


def _outcomes(job: Batch, chunks: Iterable[bytes], api_key: str) -> Iterator[tuple[int, RequestOutcome]]:
    """Yield the final outcomes of a file, each with the index of its request."""
    for _, line in read_lines(chunks, max_bytes=MAX_LINE_BYTES, max_lines=2 * job.total):
        if line is None:
            continue
        try:
            found = _lines.decode(line)
            index = int(found.custom_id)
            outcome = _outcome(job, found.response, api_key) if found.response else None
        except (msgspec.DecodeError, RecursionError, ValueError):
            continue
        if outcome and 0 <= index < job.total:
            yield index, outcome


def _outcome(job: Batch, response: _Response, api_key: str) -> RequestOutcome | None:
    """Return the final outcome of a response. Raise DecodeError if it has another form."""
    if response.status_code == 200:
        body = _bodies.decode(response.body)
        usage = _usages.decode(body.get("usage", _MISSING))
        if not _arrays.decode(body.get(_FIELDS[Batch.Kind(job.kind)], _MISSING)) or not usage.prompt:
            return None
        if "model" in body:
            body["model"] = Raw(msgspec.json.encode(job.model_id))
        return RequestOutcome(
            request=0,
            answer=msgspec.json.encode(body).decode(),
            prompt_tokens=usage.prompt,
            completion_tokens=usage.completion_tokens or usage.output_tokens,
            cached_tokens=usage.cached,
        )
    error = parse_error(bytes(response.body), api_key=api_key)
    if response.status_code not in (400, 422) or not error.message:
        return None
    is_too_long = str(error.code).lower() == CONTEXT_LENGTH_EXCEEDED
    code = ErrorCode.CONTEXT_LENGTH_EXCEEDED if is_too_long else ErrorCode.INVALID_REQUEST
    return RequestOutcome(request=0, error_code=code, error_message=error.message)


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
