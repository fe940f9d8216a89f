"""Input files of OpenAI's batches: read lines within bounds, validate them, and read the requests of a valid file.

Validation applies the checks of the live routes, so that their errors are known before anything is executed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw, Struct
from msgspec.json import Decoder

from inference.batches.services import NewRequest
from inference.engine import EmbeddingRequest, EngineError, InvalidRequest
from inference.openai_batches.seen_ids import SeenIds
from inference.protocol.anthropic.requests import parse_messages_request
from inference.protocol.openai.batches import BatchInputLine, OpenAIBatchError, reject_unsupported_in_batch
from inference.protocol.openai.chat import parse_chat_request
from inference.protocol.openai.completions import parse_completion_request
from inference.protocol.openai.embeddings import OpenAIEmbeddingsRequest
from inference.protocol.parsing import parse_struct
from inference.responses.batch_requests import batch_generation_request, parse_batch_response
from inference.usage.estimates import estimate_embedding_tokens, estimate_generation_tokens
from shared.api.errors import ApiError
from shared.api.parsers import parse_json

MAX_ERRORS = 100
MAX_CUSTOM_ID_LENGTH = 256
MAX_LINE_BYTES = 10 * 1024 * 1024  # the limit of the live routes' bodies
MAX_LINES = 1_000_000  # empty lines included; more if more requests are allowed
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_CODE_BY_FIELD = {
    "custom_id": "invalid_custom_id",
    "method": "invalid_method",
    "url": "invalid_url",
    "body": "invalid_body",
}


@dataclass
class InputFileReport:
    """The result of validation: errors, or the one model and the number of requests, with a token estimate."""

    model: str | None = None
    total: int = 0
    tokens: int = 0
    errors: list[OpenAIBatchError] = field(default_factory=list)


class TooManyLines(Exception):
    """The file has too many lines, most of them empty."""


def max_line_count(max_requests: int) -> int:
    """Return the number of lines that a file may have, empty ones included."""
    return max(MAX_LINES, 2 * max_requests)


def read_lines(
    chunks: Iterable[bytes], *, max_bytes: int = MAX_LINE_BYTES, max_lines: int | None = MAX_LINES
) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines that are not empty with their numbers from 1. Yield None for a line that is too long.

    Holds at most one line in memory. Raises TooManyLines.
    """
    number, pieces, size = 1, list[bytes](), 0
    for chunk in chunks:
        for index, piece in enumerate(chunk.split(b"\n")):
            if index:  # a line break precedes this piece
                yield from _line(number, pieces, size, max_bytes)
                number, pieces, size = number + 1, [], 0
                if max_lines is not None and number > max_lines:
                    raise TooManyLines
            size += len(piece)
            pieces.append(piece)
            if size > max_bytes:
                pieces.clear()
    yield from _line(number, pieces, size, max_bytes)


def _line(number: int, pieces: list[bytes], size: int, max_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    if size > max_bytes:
        yield number, None
        return
    line = b"".join(pieces)
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    if line and not line.isspace():
        yield number, line


def validate_file(chunks: Iterable[bytes], *, endpoint: str, max_requests: int) -> InputFileReport:
    """Validate all lines, up to MAX_ERRORS errors."""
    report = InputFileReport()
    try:
        _validate_lines(chunks, endpoint, max_requests, report)
    except TooManyLines:
        message = f"The file must have at most {max_line_count(max_requests)} lines, empty ones included."
        report.errors.append(OpenAIBatchError("too_many_lines", message))
    if not report.total and not report.errors:
        report.errors.append(OpenAIBatchError("empty_file", "The file has no requests. Send one request on each line."))
    return report


def read_requests(chunks: Iterable[bytes]) -> Iterator[NewRequest]:
    """Yield each request's custom_id and its body as JSON text, from a validated file."""
    for _, line in read_lines(chunks, max_lines=None):
        if line is not None:
            request = _decoder.decode(line)
            yield NewRequest(request.custom_id, bytes(request.body).decode())


class _RequestLine(Struct):
    custom_id: str
    body: Raw


_decoder = Decoder(_RequestLine)


class _InvalidLine(Exception):
    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


def _validate_lines(chunks: Iterable[bytes], endpoint: str, max_requests: int, report: InputFileReport) -> None:
    seen = SeenIds()
    for number, line in read_lines(chunks, max_lines=max_line_count(max_requests)):
        report.total += 1
        if report.total > max_requests:
            message = f"A batch must have at most {max_requests} requests. Split the file."
            report.errors.append(OpenAIBatchError("too_many_requests", message))
            break
        try:
            _validate_line(line, number, endpoint, report, seen)
        except _InvalidLine as error:
            report.errors.append(OpenAIBatchError(error.code, error.message, number, error.param))
            if len(report.errors) == MAX_ERRORS:
                break


def _validate_line(line: bytes | None, number: int, endpoint: str, report: InputFileReport, seen: SeenIds) -> None:
    if line is None:
        raise _InvalidLine("line_too_long", f"A line must have at most {MAX_LINE_BYTES} bytes.")
    request = _parse_line(line)
    _validate_envelope(request, endpoint)
    first_number = seen.first_line(request.custom_id, number)
    if first_number != number:
        message = f"`custom_id` must be unique, and line {first_number} has the same."
        raise _InvalidLine("duplicate_custom_id", message, "custom_id")
    try:
        model, tokens = VALIDATORS[endpoint](request.body)
    except EngineError as error:
        param = error.details.get("field")
        raise _InvalidLine("invalid_request", error.message, f"body.{param}" if param else "body") from None
    report.tokens += tokens
    report.model = report.model or model
    if model != report.model:
        message = (
            f"All requests of a batch must use one model, and the first uses {report.model[:100]!r}. Split the file."
        )
        raise _InvalidLine("mismatched_model", message, "body.model")


def _parse_line(line: bytes) -> BatchInputLine:
    try:
        fields = parse_json(line)
    except ApiError as error:
        raise _InvalidLine("invalid_json_line", error.problem.message.replace("body", "line")) from None
    try:
        return parse_struct(fields, BatchInputLine)
    except InvalidRequest as error:
        name = str(error.details.get("field", ""))
        is_missing = name in _CODE_BY_FIELD and name not in fields
        code = "missing_required_parameter" if is_missing else _CODE_BY_FIELD.get(name, "invalid_line")
        raise _InvalidLine(code, error.message, name or None) from None


def _validate_envelope(request: BatchInputLine, endpoint: str) -> None:
    if not 0 < len(request.custom_id) <= MAX_CUSTOM_ID_LENGTH:
        message = f"`custom_id` must have 1 to {MAX_CUSTOM_ID_LENGTH} characters."
        raise _InvalidLine("invalid_custom_id", message, "custom_id")
    if request.method != "POST":
        raise _InvalidLine("invalid_method", "`method` must be POST.", "method")
    if request.url not in VALIDATORS:
        raise _InvalidLine("invalid_url", f"`url` must be one of {', '.join(VALIDATORS)}.", "url")
    if request.url != endpoint:
        raise _InvalidLine("mismatched_endpoint", f"`url` must be {endpoint}, the endpoint of the batch.", "url")


def _validate_chat(fields: Mapping[str, Any]) -> tuple[str, int]:
    body = parse_chat_request(fields)
    tokens = estimate_generation_tokens(body.generation_request(""))
    reject_unsupported_in_batch(stream=body.stream, priority=body.priority)
    return body.model, tokens


def _validate_completion(fields: Mapping[str, Any]) -> tuple[str, int]:
    body = parse_completion_request(fields)
    tokens = sum(map(estimate_generation_tokens, body.generation_requests("")))
    reject_unsupported_in_batch(stream=body.stream, priority=body.priority)
    return body.model, tokens


def _validate_embeddings(fields: Mapping[str, Any]) -> tuple[str, int]:
    body = parse_struct(fields, OpenAIEmbeddingsRequest)
    return body.model, estimate_embedding_tokens(EmbeddingRequest(request_id="", texts=body.texts()))


def _validate_response(fields: Mapping[str, Any]) -> tuple[str, int]:
    body = parse_batch_response(fields)
    return body.model, estimate_generation_tokens(batch_generation_request(body, ""))


def _validate_message(fields: Mapping[str, Any]) -> tuple[str, int]:
    body = parse_messages_request(fields)
    tokens = estimate_generation_tokens(body.generation_request(""))
    reject_unsupported_in_batch(stream=body.stream, priority=None)
    return body.model, tokens


# Each returns the body's model and its token estimate.
VALIDATORS: Mapping[str, Callable[[Mapping[str, Any]], tuple[str, int]]] = {
    "/v1/chat/completions": _validate_chat,
    "/v1/completions": _validate_completion,
    "/v1/embeddings": _validate_embeddings,
    "/v1/responses": _validate_response,
    "/v1/messages": _validate_message,
}
