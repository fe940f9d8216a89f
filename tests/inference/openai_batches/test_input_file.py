"""Validation of input files: errors by line, within bounds of memory and time."""

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from inference.openai_batches import input_file
from inference.openai_batches.input_file import MAX_LINE_BYTES, InputFileReport, read_lines

pytestmark = pytest.mark.no_database

CHAT, COMPLETION, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "talker", "messages": [{"role": "user", "content": "x"}]},
    COMPLETION: {"model": "talker", "prompt": "x"},
    EMBEDDINGS: {"model": "talker", "input": "x"},
    RESPONSES: {"model": "talker", "input": "x"},
    MESSAGES: {"model": "talker", "max_tokens": 3, "messages": [{"role": "user", "content": "x"}]},
}


def check_file(chunks: Iterable[bytes], *, endpoint: str) -> InputFileReport:
    return input_file.validate_file(chunks, endpoint=endpoint, max_requests=50_000)


def line(custom_id: str = "a", endpoint: str = CHAT, **other: Any) -> bytes:
    body = BODIES[endpoint] | other.pop("body", {})
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": endpoint, "body": body} | other).encode()


def without(field: str) -> bytes:
    return json.dumps({name: value for name, value in json.loads(line()).items() if name != field}).encode()


@pytest.mark.parametrize("endpoint", [CHAT, COMPLETION, EMBEDDINGS, RESPONSES, MESSAGES])
def test_a_valid_file_yields_its_model_and_request_count(endpoint: str):
    checked = check_file([line("a", endpoint), b"\n", line("b", endpoint)], endpoint=endpoint)

    assert (checked.model, checked.total, checked.errors) == ("talker", 2, [])


@pytest.mark.parametrize(
    ("wrong", "code", "param"),
    [
        (b"{", "invalid_json_line", None),
        (b"[]", "invalid_json_line", None),
        (b'{"custom_id": "\xff"}', "invalid_json_line", None),
        (b'{"custom_id": "\\ud800"}', "invalid_json_line", None),
        (b'{"a": NaN}', "invalid_json_line", None),
        (b'{"a": 1, "a": 2}', "invalid_json_line", None),
        (b"[" * 100_000, "invalid_json_line", None),
        (b"1" * 100_000, "invalid_json_line", None),
        (b"\x00", "invalid_json_line", None),
        (line() + b" " + line(), "invalid_json_line", None),
        (without("custom_id"), "missing_required_parameter", "custom_id"),
        (without("method"), "missing_required_parameter", "method"),
        (without("url"), "missing_required_parameter", "url"),
        (without("body"), "missing_required_parameter", "body"),
        (line(custom_id=""), "invalid_custom_id", "custom_id"),
        (line(custom_id="x" * 257), "invalid_custom_id", "custom_id"),
        (json.dumps(json.loads(line()) | {"custom_id": 1}).encode(), "invalid_custom_id", "custom_id"),
        (line(method="GET"), "invalid_method", "method"),
        (line(url="/v1/moderations"), "invalid_url", "url"),
        (line(url=COMPLETION), "mismatched_endpoint", "url"),
        (json.dumps(json.loads(line()) | {"body": []}).encode(), "invalid_body", "body"),
        (line(body={"temperature": 3}), "invalid_request", "body.temperature"),
        (line(body={"messages": []}), "invalid_request", "body.messages"),
        (line(body={"model": None}), "invalid_request", "body.model"),
        (line(body={"model": "other"}), "mismatched_model", "body.model"),
        (line(body={"store": True}), "invalid_request", "body.store"),
        (line(body={"stream": True}), "invalid_request", "body.stream"),
        (line(body={"priority": 1}), "invalid_request", "body.priority"),
        (line(body={"regex": "a", "grammar": "b"}), "invalid_request", "body.regex"),
        (line("first"), "duplicate_custom_id", "custom_id"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_an_invalid_line_is_reported_by_number(wrong: bytes, code: str, param: str | None):
    checked = check_file([b"\n".join([line("first"), b"", wrong, line("last")])], endpoint=CHAT)

    assert [(error.line, error.code, error.param) for error in checked.errors] == [(3, code, param)]
    assert checked.errors[0].message.endswith(".")


def test_every_endpoint_applies_the_checks_of_its_live_route():
    for endpoint, wrong, param in (
        (COMPLETION, {"prompt": ["x", 1]}, "body.prompt"),
        (COMPLETION, {"suffix": "x"}, "body.suffix"),
        (EMBEDDINGS, {"input": ["x"] * 2049}, "body.input"),
        (EMBEDDINGS, {"encoding_format": "int8"}, "body.encoding_format"),
        (RESPONSES, {"temperature": 3}, "body.temperature"),
        (RESPONSES, {"input": []}, "body.input"),
        (RESPONSES, {"stream": True}, "body.stream"),
        (RESPONSES, {"store": True}, "body.store"),
        (RESPONSES, {"background": True}, "body.background"),
        (RESPONSES, {"conversation": "conv_1"}, "body.conversation"),
        (RESPONSES, {"previous_response_id": "resp_1"}, "body.previous_response_id"),
        (RESPONSES, {"input": [{"type": "compaction", "encrypted_content": "x"}]}, "body.input"),
        (MESSAGES, {"max_tokens": 0}, "body.max_tokens"),
        (MESSAGES, {"stream": True}, "body.stream"),
        (MESSAGES, {"tool_choice": {"type": "any"}}, "body.tool_choice"),
        (MESSAGES, {"colour": 1}, "body.colour"),
    ):
        checked = check_file([line(endpoint=endpoint, body=wrong)], endpoint=endpoint)
        assert [(error.code, error.param) for error in checked.errors] == [("invalid_request", param)]


def test_a_byte_order_mark_crlf_and_empty_lines_are_accepted():
    content = b"\xef\xbb\xbf" + b"\r\n".join([line("a"), b"", b"  \t", line("b")]) + b"\r\n\r\n"

    checked = check_file([content], endpoint=CHAT)

    assert (checked.total, checked.errors) == (2, [])


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b" \r\n"])
def test_a_file_without_requests_is_refused(content: bytes):
    checked = check_file([content], endpoint=CHAT)

    assert [(error.code, error.line) for error in checked.errors] == [("empty_file", None)]


def test_one_request_over_the_maximum_is_refused():
    lines = (line(str(number)) + b"\n" for number in range(50_001))

    checked = check_file(lines, endpoint=CHAT)

    assert [error.code for error in checked.errors] == ["too_many_requests"]


def test_reading_stops_at_the_maximum_number_of_lines():
    checked = check_file(itertools.chain([line() + b"\n"], itertools.repeat(b"\n" * 2**16)), endpoint=CHAT)

    assert [(error.code, error.line) for error in checked.errors] == [("too_many_lines", None)]


def test_validation_stops_after_one_hundred_errors():
    endless = itertools.repeat(b"{\n")

    checked = check_file(endless, endpoint=CHAT)

    assert [error.line for error in checked.errors] == list(range(1, 101))


def test_a_line_that_is_too_long_is_not_held_in_memory():
    held = 0

    def pieces() -> Iterator[bytes]:
        yield line("a") + b"\n"
        for _ in range(200):
            yield b"x" * 2**20
        yield b"\n" + line("b")

    for number, content in read_lines(pieces()):
        held = max(held, len(content or b""))
        assert (content is None) == (number == 2)
    checked = check_file(pieces(), endpoint=CHAT)

    assert held < MAX_LINE_BYTES
    assert checked.total == 3
    assert [(error.line, error.code) for error in checked.errors] == [(2, "line_too_long")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_chunk_size_does_not_affect_lines(size: int):
    content = b"\xef\xbb\xbf" + b"a\r\n\nbc\n\n\nlast"
    pieces = [content[start : start + size] for start in range(0, len(content), size)]

    assert list(read_lines(pieces)) == [(1, b"a\r"), (3, b"bc"), (6, b"last")]
