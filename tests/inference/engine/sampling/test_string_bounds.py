"""Strings without a bound get a fair share of the tokens."""

from typing import Any

import pytest

from inference.engine.sampling.string_bounds import with_string_bounds

STRING = {"type": "string"}


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "bounded"),
    [
        (fields(a=STRING, b=STRING), fields(a=STRING | {"maxLength": 192}, b=STRING | {"maxLength": 192})),
        (
            fields(a=STRING, b={"type": "array", "items": STRING}),
            fields(
                a=STRING | {"maxLength": 96},
                b={"type": "array", "items": STRING | {"maxLength": 96}},
            ),
        ),
        (fields(a=STRING), fields(a=STRING)),
        (
            fields(a={"type": ["string", "null"]}, b=STRING, c=STRING | {"maxLength": 9}, d={"enum": [STRING]}),
            fields(
                a={"type": ["string", "null"], "maxLength": 192},
                b=STRING | {"maxLength": 192},
                c=STRING | {"maxLength": 9},
                d={"enum": [STRING]},
            ),
        ),
    ],
)
def test_strings_without_a_bound_get_a_fair_share_of_the_tokens(
    schema: dict[str, Any], bounded: dict[str, Any]
) -> None:
    assert with_string_bounds(schema, 100) == bounded


CONSTS = [{"const": letter * 60} for letter in "ab"]


@pytest.mark.parametrize(
    "one",
    [
        *(STRING | {keyword: CONSTS} for keyword in ("allOf", "anyOf", "oneOf")),
        *(STRING | {keyword: {"minLength": 60}} for keyword in ("not", "if")),
        *(STRING | {keyword: "#/$defs/long"} for keyword in ("$ref", "$dynamicRef")),
        {"allOf": [STRING, {"minLength": 60}]},
        {"not": STRING},
    ],
)
def test_strings_that_another_keyword_may_bound_get_no_bound(one: dict[str, Any]) -> None:
    bounded = with_string_bounds(fields(a=one, b=STRING, c=STRING), 50)
    assert bounded["properties"] == {"a": one, "b": STRING | {"maxLength": 96}, "c": STRING | {"maxLength": 96}}


def test_long_limits_and_deep_schemas_stay_as_they_are() -> None:
    schema = fields(a=STRING, b=STRING)
    assert with_string_bounds(schema, 10_000) == schema
    deep: dict[str, Any] = STRING
    for _ in range(900):
        deep = {"anyOf": [deep, STRING]}
    assert with_string_bounds(deep, 100) == deep
