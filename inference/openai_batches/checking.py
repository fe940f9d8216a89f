"""An input file, checked line by line: what the live routes would refuse is known before anything is run."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw, Struct
from msgspec.json import Decoder

from inference.engine import EmbeddingRequest, EngineError, InvalidRequest
from inference.protocol.openai import parse_chat
from inference.protocol.openai_batches import BatchError, BatchLine, refuse_in_batch
from inference.protocol.openai_completions import parse_completion
from inference.protocol.openai_embeddings import OpenAIEmbeddingsBody
from inference.protocol.parameters import parse
from inference.usage.services import tokens_of, tokens_of_texts
from shared.api.errors import ApiError
from shared.api.json import parse_json

MOST_ERRORS = 100
LONGEST_CUSTOM_ID = 256
LONGEST_LINE = 10 * 1024 * 1024  # what the live routes take
MOST_LINES = 1_000_000  # empty ones included
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# A field of a line to the code of what is wrong with it.
_CODES = {"custom_id": "invalid_custom_id", "method": "invalid_method", "url": "invalid_url", "body": "invalid_body"}


@dataclass
class CheckedFile:
    """What a file holds: one model, and requests of one endpoint, which may take about so many tokens; or what is wrong
    with it."""

    model: str | None = None
    total: int = 0
    tokens: int = 0
    errors: list[BatchError] = field(default_factory=list)


class TooManyLines(Exception):
    """Most of them must be empty."""


def read_lines(chunks: Iterable[bytes], *, longest: int = LONGEST_LINE) -> Iterator[tuple[int, bytes | None]]:
    """The lines that are not empty, with their numbers from 1; None for one that is too long, which is not held.
    Raises TooManyLines."""
    number, held, size = 1, list[bytes](), 0
    for chunk in chunks:
        for place, piece in enumerate(chunk.split(b"\n")):
            if place:  # the line before this piece has ended
                yield from _line(number, held, size, longest)
                number, held, size = number + 1, [], 0
                if number > MOST_LINES:
                    raise TooManyLines
            size += len(piece)
            held.append(piece)
            if size > longest:
                held.clear()
    yield from _line(number, held, size, longest)


def _line(number: int, held: list[bytes], size: int, longest: int) -> Iterator[tuple[int, bytes | None]]:
    if size > longest:
        yield number, None
        return
    line = b"".join(held)
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    if line and not line.isspace():
        yield number, line


def check_file(chunks: Iterable[bytes], *, endpoint: str, most: int) -> CheckedFile:
    """Reads it to its end, or to its hundredth mistake."""
    checked = CheckedFile()
    try:
        _check_lines(chunks, endpoint, most, checked)
    except TooManyLines:
        message = f"A file has at most {MOST_LINES} lines, empty ones included."
        checked.errors.append(BatchError("too_many_lines", message))
    if not checked.total and not checked.errors:
        checked.errors.append(BatchError("empty_file", "The file has no requests: send a line for each."))
    return checked


def _check_lines(chunks: Iterable[bytes], endpoint: str, most: int, checked: CheckedFile) -> None:
    seen: dict[str, int] = {}
    for number, line in read_lines(chunks):
        checked.total += 1
        if checked.total > most:
            message = f"A batch has at most {most} requests: split the file."
            checked.errors.append(BatchError("too_many_requests", message))
            break
        try:
            _check_line(line, number, endpoint, checked, seen)
        except _WrongLine as wrong:
            checked.errors.append(BatchError(wrong.code, wrong.message, number, wrong.param))
            if len(checked.errors) == MOST_ERRORS:
                break


class _WrongLine(Exception):
    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


def _check_line(line: bytes | None, number: int, endpoint: str, checked: CheckedFile, seen: dict[str, int]) -> None:
    if line is None:
        raise _WrongLine("line_too_long", f"A line has at most {LONGEST_LINE} bytes.")
    request = _read_line(line)
    _check_envelope(request, endpoint)
    first = seen.setdefault(request.custom_id, number)
    if first != number:
        raise _WrongLine("duplicate_custom_id", f"Line {first} has this custom_id already.", "custom_id")
    try:
        model, tokens = CHECKS[endpoint](request.body)
    except EngineError as error:
        param = error.details.get("field")
        raise _WrongLine("invalid_request", error.message, f"body.{param}" if param else "body") from None
    checked.tokens += tokens
    checked.model = checked.model or model
    if model != checked.model:
        message = f"A batch has one model, and this one began with {checked.model[:100]!r}: split the file."
        raise _WrongLine("mismatched_model", message, "body.model")


def read_requests(chunks: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Of a file that was checked: each request's id, and its body's JSON as it came."""
    for _, line in read_lines(chunks):
        if line is not None:
            request = _decoder.decode(line)
            yield request.custom_id, bytes(request.body).decode()


class _Request(Struct):
    custom_id: str
    body: Raw


_decoder = Decoder(_Request)


def _read_line(line: bytes) -> BatchLine:
    try:
        value = parse_json(line)
    except ApiError as error:
        raise _WrongLine("invalid_json_line", error.problem.message.replace("body", "line")) from None
    try:
        return parse(value, BatchLine)
    except InvalidRequest as error:
        named = str(error.details.get("field", ""))
        is_missing = named in _CODES and named not in value
        code = "missing_required_parameter" if is_missing else _CODES.get(named, "invalid_line")
        raise _WrongLine(code, error.message, named or None) from None


def _check_envelope(request: BatchLine, endpoint: str) -> None:
    if not 0 < len(request.custom_id) <= LONGEST_CUSTOM_ID:
        raise _WrongLine("invalid_custom_id", f"custom_id has 1 to {LONGEST_CUSTOM_ID} characters.", "custom_id")
    if request.method != "POST":
        raise _WrongLine("invalid_method", "method is wrong: send POST.", "method")
    if request.url not in CHECKS:
        raise _WrongLine("invalid_url", f"url is wrong: send one of {', '.join(CHECKS)}.", "url")
    if request.url != endpoint:
        raise _WrongLine("mismatched_endpoint", f"url is wrong: the endpoint of this batch is {endpoint}.", "url")


def _check_chat(value: Mapping[str, Any]) -> tuple[str, int]:
    body = parse_chat(value)
    tokens = tokens_of(body.generation_request(""))
    refuse_in_batch(stream=body.stream, priority=body.priority)
    return body.model, tokens


def _check_completion(value: Mapping[str, Any]) -> tuple[str, int]:
    body = parse_completion(value)
    tokens = sum(map(tokens_of, body.generation_requests("")))
    refuse_in_batch(stream=body.stream, priority=body.priority)
    return body.model, tokens


def _check_embeddings(value: Mapping[str, Any]) -> tuple[str, int]:
    body = parse(value, OpenAIEmbeddingsBody)
    return body.model, tokens_of_texts(EmbeddingRequest(request_id="", texts=body.texts()))


# Each answers the model that the body names, and what it may take.
CHECKS: Mapping[str, Callable[[Mapping[str, Any]], tuple[str, int]]] = {
    "/v1/chat/completions": _check_chat,
    "/v1/completions": _check_completion,
    "/v1/embeddings": _check_embeddings,
}
