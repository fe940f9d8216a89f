"""Refused and accepted JSON bodies."""

import json
import time
from typing import Any

import pytest
from django.test import Client

from shared.api.errors import ApiError
from shared.api.parsers import MAX_BRACKETS, MAX_COMMAS, MAX_DEPTH, parse_json

pytestmark = pytest.mark.no_database


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


REFUSED = {
    "100k of nesting": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "one level too many": nested(MAX_DEPTH + 1),
    "more brackets than anybody needs": b'{"a":[' + b"{}," * MAX_BRACKETS + b"{}]}",
    "more numbers than are read in an instant": b'{"a":[' + b"1," * (MAX_COMMAS + 1) + b"1]}",
    "more texts than are read in an instant": b'{"a":[' + b'"\\"",' * (MAX_COMMAS + 1) + b'""]}',
    "a number of 5,000 digits": b'{"n":' + b"9" * 5_000 + b"}",
    "NaN": b'{"n": NaN}',
    "Infinity": b'{"n": Infinity}',
    "minus Infinity": b'{"n": -Infinity}',
    "a float past the largest": b'{"n": 1e999}',
    "the same key twice": b'{"n": 1, "n": 2}',
    "the same key twice, deep": b'{"a": [{"n": 1, "n": 2}]}',
    "the same key twice, once escaped": rb'{"n": 1, "\u006e": 2}',
    "a lone high surrogate": rb'{"a": "\ud800"}',
    "a lone low surrogate": rb'{"a": "\uDC00 "}',
    "a lone surrogate in a key": rb'{"\ud800": 1}',
    "a lone surrogate in a list": rb'{"a": [1, ["\ud83d"]]}',
    "an escaped NUL": rb'{"a": {"b": "x\u0000y"}}',
    "a raw NUL": b'{"a": "x\x00y"}',
    "a byte order mark": b'\xef\xbb\xbf{"a": 1}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "bad UTF-8": b'{"a": "\xff"}',
    "overlong UTF-8": b'{"a": "\xc0\x80"}',
    "surrogates in UTF-8": b'{"a": "\xed\xa0\x80"}',
    "a list": b"[1]",
    "a string": b'"a"',
    "null": b"null",
    "nothing": b"",
    "two documents": b"{} {}",
    "more than a million values": b'{"a": [' + b"7," * 1_000_000 + b"7, 7]}",
    "a trailing comma": b'{"a": 1,}',
    "single quotes": b"{'a': 1}",
    "a comment": b"{} // x",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_i2_unsafe_json_is_refused_with_400_and_the_reason(body: bytes) -> None:
    started = time.monotonic()
    with pytest.raises(ApiError) as caught:
        parse_json(body)
    assert caught.value.problem.status == 400
    assert caught.value.problem.code == "invalid_request"
    assert len(caught.value.problem.message) > 10
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": [1, -2.5, True, None, "x", {"b": []}]},
        {"text": 'žluťoučký 🐎 " \\ / \n \\u0000 in words'},
        {"n": 10**4299},
        {"many": {str(number): number for number in range(100_000)}},
        {"table": '1,"two",\\' * MAX_COMMAS, "more": [1, 2]},
    ],
    ids=["empty", "of all kinds", "text", "4,300 digits", "100k keys", "a text full of commas"],
)
@pytest.mark.parametrize("escaped", [True, False], ids=["escaped", "raw"])
def test_i2_valid_json_is_parsed_unchanged(value: dict[str, object], escaped: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=escaped).encode()) == value


def test_i2_the_deepest_allowed_nesting_is_parsed() -> None:
    value: Any = parse_json(nested(MAX_DEPTH))
    for _ in range(MAX_DEPTH):
        value = value["a"]
    assert value == 1


def test_i2_wide_but_shallow_json_is_not_counted_as_deep() -> None:
    assert parse_json(json.dumps({"a": [[]] * 1000}).encode()) == {"a": [[]] * 1000}


@pytest.mark.urls("tests.shared.api.wire")
@pytest.mark.usefixtures("neutral_errors")
class TestThroughARoute:
    def test_i2_every_refused_body_is_a_validation_error_in_json(self) -> None:
        client = Client(raise_request_exception=False)
        for name, body in REFUSED.items():
            answer = client.post("/orders", body, content_type="application/json")
            assert (name, answer.status_code) == (name, 422)
            assert answer.json()["status"] == 422

    def test_i2_a_charset_that_is_not_utf_8_is_refused(self) -> None:
        for charset in ("nope", "utf-16", "latin-1"):
            answer = Client().generic("POST", "/orders", b"{}", content_type=f"application/json; charset={charset}")
            assert answer.status_code == 400
        answer = Client().post("/orders", b'{"name": "a", "lines": []}', content_type="application/json; charset=UTF-8")
        assert answer.status_code == 200

    @pytest.mark.parametrize(
        "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    )
    def test_i2_other_content_types_are_a_415(self, content_type: str) -> None:
        answer = Client().post("/orders", b"{}", content_type=content_type)
        assert answer.status_code == 415
        assert answer.json()["code"] == "unsupported_media_type"
