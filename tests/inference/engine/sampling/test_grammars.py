"""Structured output: every text satisfies its constraint, whatever the logits are."""

import json
import re
import time
from collections.abc import Iterator
from itertools import count, product
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.engine.errors import InvalidRequest
from inference.engine.outputs import FinishReason
from inference.engine.requests import GenerationRequest
from inference.engine.sampling import ConstraintKind, OutputConstraint, SamplingParams
from inference.engine.sampling.grammars import MAX_DEFINITION_LENGTH, GrammarCompiler
from inference.engine.scheduling.engine import Engine
from inference.engine.text.tokenizer import Tokenizer
from tests.inference.engine.engine_runner import Collector, RememberingDecoder, running_engine
from tests.inference.engine.tiny_models import END, SPECIAL, byte_tokenizer, letter_tokenizer

BYTES = byte_tokenizer()
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
# Strings and a list without bounds.
OPEN = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "features": {"type": "array", "items": {"type": "string"}}},
    "required": ["title", "features"],
}
NUMBERS = count()
Running = tuple[Engine, Collector]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with running_engine(RememberingDecoder(len(BYTES)), BYTES, context_size=1024) as engine:
        yield engine


def schema(value: object) -> OutputConstraint:
    return OutputConstraint(ConstraintKind.JSON_SCHEMA, json.dumps(value))


def regex(pattern: str) -> OutputConstraint:
    return OutputConstraint(ConstraintKind.REGEX, pattern)


def request(name: str, constraint: OutputConstraint, **sampling: Any) -> GenerationRequest:
    params = SamplingParams(constraint=constraint, **{"seed": 1, "max_tokens": 900} | sampling)
    return GenerationRequest(request_id=name, prompt="the lamp", sampling=params)


def written(
    running: Running, name: str, constraint: OutputConstraint, **sampling: Any
) -> tuple[str, FinishReason | None]:
    engine, collector = running
    name = f"{name} {next(NUMBERS)}"
    engine.submit(request(name, constraint, **sampling))
    return collector.text(name), collector.outputs(name)[-1].finish_reason


leaves = st.one_of(
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"enum": ["oak", "brass", 3, None]}, {"const": "lamp"}]),
    st.just({"type": "integer", "minimum": 0, "maximum": 10**6, "multipleOf": 365}),
    st.integers(-50, 50).map(lambda low: {"type": "integer", "minimum": low, "maximum": low + 9}),
    st.integers(0, 6).map(lambda length: {"type": "string", "maxLength": length}),
    st.sampled_from([{"type": "string", "pattern": "^[a-f]{2,5}$"}, {"type": "string", "format": "date"}]),
)


def branches(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.lists(st.text('abcé"\\', min_size=1, max_size=4), unique=True, max_size=3)
    objects = names.flatmap(
        lambda names: st.fixed_dictionaries(dict.fromkeys(names, inner)).map(
            lambda properties: {
                "type": "object",
                "properties": properties,
                "required": names[:2],
                "additionalProperties": False,
            }
        )
    )
    arrays = inner.map(lambda items: {"type": "array", "items": items, "minItems": 1, "maxItems": 2})
    unions = st.lists(inner, min_size=2, max_size=3).map(lambda some: {"anyOf": some})
    return st.one_of(objects, arrays, unions)


@given(wanted=st.recursive(leaves, branches, max_leaves=5), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_text_is_valid_against_its_schema(running: Running, wanted: dict[str, Any], seed: int) -> None:
    text, reason = written(running, "schema", schema(wanted), seed=seed)
    assert reason == FinishReason.STOP
    jsonschema.validate(json.loads(text), wanted)


def test_json_object_gives_an_object_at_every_temperature(running: Running) -> None:
    form = OutputConstraint(ConstraintKind.JSON_OBJECT)
    for temperature in (0.0, 0.7, 2.0):
        # A bias towards the brace, or an object of random words would not end.
        brace = BYTES.convert_tokens_to_ids("}")
        quote = BYTES.convert_tokens_to_ids('"')
        bias = {brace: 30.0, quote: 15.0}
        text, reason = written(running, f"object {temperature}", form, temperature=temperature, logit_bias=bias)
        assert reason == FinishReason.STOP
        assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize(
    "pattern", ["(oak|brass) lamp", r"[0-9]{4}-[0-9]{2}", "a/b", "^[\u65e5\u672c]{2}\U0001f527$", "(a|ab)(c|bcd)", ""]
)
def test_every_text_fully_matches_its_regex(running: Running, pattern: str) -> None:
    for seed in range(5):
        text, reason = written(running, f"regex {pattern} {seed}", regex(pattern), seed=seed)
        assert reason == FinishReason.STOP
        assert re.fullmatch(pattern, text)


def test_every_text_satisfies_its_grammar(running: Running) -> None:
    lark = 'start: "(" start ")" | WORD\nWORD: /[a-z]{1,4}/\n'
    for seed in range(5):
        text, reason = written(running, f"grammar {seed}", OutputConstraint(ConstraintKind.GRAMMAR, lark), seed=seed)
        assert reason == FinishReason.STOP
        opening, closing = text.count("("), text.count(")")
        assert opening == closing
        assert re.fullmatch(r"\(*[a-z]{1,4}\)*", text)


GBNF = """
# llama.cpp's own notation
root  ::= "(" word ("," ws word)* ")"
word  ::= [a-z]{1,4} | "\\""
ws ::= " "?
"""


def test_every_text_satisfies_its_grammar_in_gbnf(running: Running) -> None:
    for seed in range(5):
        constraint = OutputConstraint(ConstraintKind.GRAMMAR, GBNF)
        text, reason = written(running, f"gbnf {seed}", constraint, seed=seed, max_tokens=400)
        if reason == FinishReason.STOP:
            assert re.fullmatch(r'\(([a-z]{1,4}|")(, ?([a-z]{1,4}|"))*\)', text)
        else:
            assert text.startswith("(")


@pytest.mark.parametrize(
    ("grammar", "says"),
    [
        ('root ::= "a" missing', "Rule 'missing' not found"),
        ('first ::= "a"', "No 'root' rule found"),
        ('root ::= "a', "Unexpected end of input"),
        ('root ::= "\\', "it ends within an escape sequence"),
        ("root ::= " + "(" * 4000, "it is nested too deeply"),
        ("root ::= " + '"a" ' * 4000, "at most 8192 characters in GBNF"),
        ("".join(f"r{place} ::= r{place + 1}\n" for place in range(400)) + 'r400 ::= "a"\nroot ::= r0', ""),
    ],
)
def test_a_wrong_grammar_in_gbnf_is_rejected_soon(running: Running, grammar: str, says: str) -> None:
    started_at = time.monotonic()
    constraint = OutputConstraint(ConstraintKind.GRAMMAR, grammar, "guided_grammar")
    if says:
        with pytest.raises(InvalidRequest, match=re.escape(says)) as refused:
            running[0].submit(request("bad", constraint))
        assert refused.value.details["parameter"] == "guided_grammar"
    else:
        assert written(running, "chain", constraint) == ("a", FinishReason.STOP)
    assert time.monotonic() - started_at < 20


def test_the_end_token_is_allowed_only_where_the_constraint_may_end(running: Running) -> None:
    # The end token is the best by far all the time.
    text, reason = written(running, "eager", regex("lamp( shade)?"), temperature=0, logit_bias={END: 100.0})
    assert (text, reason) == ("lamp", FinishReason.STOP)


def test_a_completed_constraint_ends_the_text_despite_other_parameters(running: Running) -> None:
    for name, asked in {"more": {"min_tokens": 50}, "endless": {"ignore_eos": True}}.items():
        text, reason = written(running, name, regex("lamp"), **asked)
        assert (text, reason) == ("lamp", FinishReason.STOP)


def test_an_incomplete_constrained_text_ends_with_length(running: Running) -> None:
    text, reason = written(running, "short", schema(PERSON), max_tokens=3)
    assert reason == FinishReason.LENGTH
    assert text.startswith("{")


@pytest.mark.parametrize("form", [schema(OPEN), OutputConstraint(ConstraintKind.JSON_OBJECT)])
def test_json_closes_before_its_limit(running: Running, form: OutputConstraint) -> None:
    for seed in range(20):
        text, reason = written(running, "open", form, seed=seed, max_tokens=100, temperature=1.5)
        assert reason == FinishReason.STOP
        jsonschema.validate(json.loads(text), json.loads(form.definition or "{}"))


def test_json_ends_with_its_last_bracket_whatever_white_space_is_likely(running: Running) -> None:
    spaces = {BYTES.convert_tokens_to_ids(token): 100.0 for token in ("\u0120", "\u010a")}  # a space, a new line
    for asked in ({}, {"min_tokens": 80}, {"ignore_eos": True}):
        text, reason = written(running, "spaces", schema(PERSON), logit_bias=spaces, **asked)
        assert (text[-1], reason) == ("}", FinishReason.STOP)


def test_a_constrained_text_with_a_seed_is_the_same_alone_and_in_a_batch(running: Running) -> None:
    engine, collector = running
    alone, _ = written(running, "alone", schema(PERSON), seed=5)
    for place in range(6):
        engine.submit(request(f"company {place}", schema(PERSON) if place % 2 else regex("[a-z]{40}"), seed=place))
    engine.submit(request("crowded", schema(PERSON), seed=5))
    free = GenerationRequest(request_id="free", prompt="the lamp", sampling=SamplingParams(seed=3, max_tokens=30))
    engine.submit(free)
    assert collector.text("crowded") == alone
    assert len(collector.outputs("free")) == 30


def test_each_choice_satisfies_the_constraint(running: Running) -> None:
    engine, collector = running
    one = request("several", schema(PERSON))
    engine.submit(GenerationRequest(request_id="several", prompt="the lamp", sampling=one.sampling, n=3))
    outputs = collector.outputs("several")
    texts = ["".join(output.text for output in outputs if output.choice == choice) for choice in range(3)]
    for text in texts:
        jsonschema.validate(json.loads(text), PERSON)
    assert len(set(texts)) == 3


def test_a_constraint_that_grows_too_complex_ends_only_its_own_request(running: Running) -> None:
    engine, collector = running
    engine.submit(request("beside", schema(PERSON)))
    wide = {"type": "object", "properties": {f"p{i}": {} for i in range(1500)}, "additionalProperties": False}
    engine.submit(request("wide", schema(wide)))
    last = collector.outputs("wide")[-1]
    assert last.finish_reason == FinishReason.ERROR
    assert last.error
    assert "could not be continued" in last.error
    jsonschema.validate(json.loads(collector.text("beside")), PERSON)


def test_an_ambiguous_grammar_ends_only_its_own_request(running: Running) -> None:
    engine, collector = running
    engine.submit(request("beside the ambiguous", schema(PERSON)))
    ambiguous = OutputConstraint(ConstraintKind.GRAMMAR, "start: s\ns: s s s | /[a-z]/ | s s")
    engine.submit(request("ambiguous", ambiguous, max_tokens=150))
    last = collector.outputs("ambiguous")[-1]
    assert last.finish_reason == FinishReason.ERROR
    assert "max is 500" in (last.error or "")
    jsonschema.validate(json.loads(collector.text("beside the ambiguous")), PERSON)


WORDS = ["".join(letters) for letters in product("abcdefgh", repeat=4)]


@pytest.mark.parametrize(
    "grammar",
    [
        "start: T\nT: " + " | ".join(f'"{word}"' for word in WORDS[:4000]),
        "start: " + "\n  | ".join(f'/{word}/ "&: "' for word in WORDS[:400]),
        "root ::= " + " | ".join(f'"{word}"' for word in WORDS[:400]),
    ],
)
def test_a_grammar_of_many_alternatives_is_followed(running: Running, grammar: str) -> None:
    text, _ = written(running, "alternatives", OutputConstraint(ConstraintKind.GRAMMAR, grammar), max_tokens=20)
    assert text[:4] in WORDS


def test_a_grammar_beyond_the_limits_is_rejected_with_the_limit(running: Running) -> None:
    chain = "start: r0\n" + "\n".join(f"  ?r{number} : r{number + 1}" for number in range(3000)) + '\nr3000: "a"'
    ambiguous = "start: " + " | ".join(['"a"'] * 9000)
    intersections = "start: T\nT: " + " & ".join(f"/.*{word}.*/" for word in WORDS[:14])
    alternatives = " | ".join(f'"{word}"' for word in WORDS[:3000])
    for grammar, says in {
        f"start: {alternatives}": "Current row has 3001 items; max is 500",
        f"start: a b\na: {alternatives}\nb: a": "max is 500",
        "root ::= " + " | ".join(f'"{word}"' for word in WORDS[:900]): "Current row has 901 items; max is 500",
        chain: "3002 rules, and at most 500",
        ambiguous: "Too many items (limit 5000",
        intersections: "13 intersections (`&`), and at most 4",
    }.items():
        with pytest.raises(InvalidRequest, match=re.escape(says)) as refused:
            running[0].submit(request("bad", OutputConstraint(ConstraintKind.GRAMMAR, grammar)))
        assert refused.value.details["parameter"] == "grammar"


def test_a_schema_of_many_properties_is_satisfied(running: Running) -> None:
    properties = {f"p{i}": {"type": "boolean"} for i in range(490)}
    text, _ = written(
        running, "wide", schema({"properties": properties, "required": ["p3"], "type": "object"}), max_tokens=9
    )
    assert text.startswith("{")


@pytest.mark.parametrize(
    ("constraint", "parameter", "says"),
    [
        (OutputConstraint(ConstraintKind.JSON_SCHEMA, "{"), "response_format", "JSON schema that is an object"),
        (
            OutputConstraint(ConstraintKind.JSON_SCHEMA, "[" * 50_000),
            "response_format",
            "JSON schema that is an object",
        ),
        (schema([1]), "response_format", "JSON schema that is an object"),
        (schema({"type": "lamp"}), "response_format", "Invalid type: lamp"),
        (schema({"not": {}}), "response_format", "not"),
        (schema({"type": "integer", "minimum": 5, "maximum": 3}), "response_format", "Unsatisfiable"),
        (schema({"allOf": [{"$ref": "#"}]}), "response_format", "no text satisfies it"),
        (schema({"$ref": "http://127.0.0.1/schema"}), "response_format", "http://127.0.0.1/schema"),
        (schema({"enum": ["x" * MAX_DEFINITION_LENGTH]}), "response_format", "at most 65536 characters"),
        (regex("(oak"), "regex", "unclosed group"),
        (regex(r"(a)\1"), "regex", "backreferences are not supported"),
        (regex("a" * (MAX_DEFINITION_LENGTH + 1)), "regex", "at most 65536 characters"),
        (OutputConstraint(ConstraintKind.GRAMMAR, "start: lamp"), "grammar", 'unknown name: "lamp"'),
        (OutputConstraint(ConstraintKind.GRAMMAR, ""), "grammar", "no start rule"),
        (OutputConstraint(ConstraintKind.GRAMMAR, "start: " + "(" * 30_000), "grammar", "too deeply nested"),
    ],
)
def test_an_invalid_constraint_is_rejected_at_submission(
    running: Running, constraint: OutputConstraint, parameter: str, says: str
) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(says)) as refused:
        running[0].submit(request("bad", constraint))
    assert refused.value.details["parameter"] == parameter


PATTERNS = [{"type": "string", "pattern": f".*{word}.*"} for word in WORDS[:20]]
DEFINITIONS = {str(place): pattern for place, pattern in enumerate(PATTERNS)}
CHAIN = {name: pattern | {"$ref": f"#/$defs/{int(name) + 1}"} for name, pattern in DEFINITIONS.items()}
DOUBLING = {
    str(place): {"properties": {name: {"$ref": f"#/$defs/{place + 1}"} for name in "ab"}} for place in range(40)
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("combined", "says"),
    [
        ({"allOf": PATTERNS}, "applies 20 patterns and formats to one string, and at most 6 are allowed"),
        ({"allOf": [{"anyOf": [each]} for each in PATTERNS]}, "applies 20 patterns"),
        ({"allOf": [{"properties": {"a": each}} for each in PATTERNS], "type": "object"}, "applies 20 patterns"),
        ({"allOf": [{"items": each} for each in PATTERNS], "type": "array"}, "applies 20 patterns"),
        ({"allOf": [{"additionalProperties": each} for each in PATTERNS], "type": "object"}, "applies 20 patterns"),
        ({"allOf": [{"$ref": f"#/$defs/{name}"} for name in DEFINITIONS], "$defs": DEFINITIONS}, "applies 20 patterns"),
        ({"$ref": "#/$defs/0", "$defs": CHAIN}, "applies 20 patterns"),
        ({"$ref": "#/$defs/0", "$defs": DOUBLING | {"40": PATTERNS[0]}}, "repeats patterns more than 100000 times"),
    ],
)  # fmt: skip
def test_more_patterns_of_one_string_than_allowed_are_rejected(
    running: Running, combined: dict[str, Any], says: str
) -> None:
    for constraint in (
        schema(combined),
        OutputConstraint(ConstraintKind.GRAMMAR, f"start: %json {json.dumps(combined)}"),
    ):
        with pytest.raises(InvalidRequest, match=re.escape(says)):
            running[0].submit(request("bad", constraint))


def test_patterns_of_many_strings_and_a_few_of_one_are_followed(running: Running) -> None:
    properties = {f"p{place}": {"$ref": "#/$defs/code"} for place in range(40)}
    code = {"allOf": [{"type": "string", "pattern": "^[a-z]+$"}, {"type": "string", "maxLength": 2}]}
    wanted = {"type": "object", "properties": properties, "required": ["p3"], "$defs": {"code": code}}
    assert written(running, "codes", schema(wanted), max_tokens=9)[0].startswith("{")


@pytest.mark.parametrize(
    ("multiples", "says"),
    [
        ({"multipleOf": 8_000_009}, "8000009 would take too long to follow"),
        ({"multipleOf": -8_000_009}, "8000009 would take too long to follow"),
        ({"multipleOf": 49_999_000}, "49999000 would take too long to follow"),
        ({"multipleOf": 1e9}, "1000000000 cannot be followed exactly: use an integer up to 300000000"),
        ({"multipleOf": 10**400}, "cannot be followed exactly"),
        ({"multipleOf": 1e-300}, "cannot be followed exactly"),
        ({"multipleOf": 0.07}, "0.07 cannot be followed exactly"),
        ({"allOf": [{"multipleOf": 9967}, {"multipleOf": 9973}]}, "9967, 9973 would take too long to follow"),
        ({"allOf": [{"multipleOf": 3e8}, {"multipleOf": 64}]}, "64, 300000000 would take too long to follow"),
        ({"anyOf": [{"multipleOf": 30000}], "multipleOf": 1e-8}, "1e-08, 30000 would take too long to follow"),
        ({"$defs": {str(n): {"multipleOf": 300 + n} for n in range(400)}}, "300, 301, 302"),
    ],
)
def test_multiples_that_would_take_too_long_are_rejected(
    running: Running, multiples: dict[str, Any], says: str
) -> None:
    wanted = {"type": "number"} | multiples
    escaped = json.dumps(wanted).replace("multipleOf", "multipleO\\u0066")
    for constraint in (
        schema(wanted),
        OutputConstraint(ConstraintKind.GRAMMAR, f"# %json [\nstart: %json\n {escaped} | %json {{}}"),
    ):
        with pytest.raises(InvalidRequest, match=re.escape(says)):
            running[0].submit(request("bad", constraint))


@pytest.mark.parametrize("value", [7, 0.01, 2.5, 86_400, 3_600_000, 100_000_000, -500])
def test_a_common_multiple_of_is_satisfied(running: Running, value: float) -> None:
    bounds = {"minimum": abs(value), "maximum": abs(value)}
    text, reason = written(running, "multiple", schema({"type": "number", "multipleOf": value} | bounds))
    assert (float(text), reason) == (abs(value), FinishReason.STOP)


def test_multiples_of_several_and_optional_fields_are_satisfied(running: Running) -> None:
    fields: dict[str, Any] = {
        "price": {"anyOf": [{"type": "number", "multipleOf": 0.01, "minimum": 3, "maximum": 3}, {"type": "null"}]},
        "pieces": {"type": "integer", "multipleOf": 60, "minimum": 60, "maximum": 90},
        "grams": {"type": "integer", "multipleOf": 500, "minimum": 1, "maximum": 999},
    }
    wanted = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    text, _ = written(running, "several multiples", schema(wanted))
    told = json.loads(text)
    assert told["price"] in (3, None)
    assert (told["pieces"], told["grams"]) == (60, 500)


@pytest.mark.parametrize(
    "constraint",
    [
        regex("((a{1000}){1000}){1000}"),
        regex("(.*[abc].{3}){8}.*"),
        schema({"type": "string", "pattern": "((a{1000}){1000}){1000}"}),
        schema({"type": "array", "minItems": 10**6}),
        OutputConstraint(ConstraintKind.GRAMMAR, 'start: "x"{1000000000}'),
        OutputConstraint(ConstraintKind.GRAMMAR, '%llguidance {"no_forcing": false}\nstart: /((a{1000}){1000}){1000}/'),
    ],
)
def test_a_huge_constraint_costs_only_the_generated_tokens(running: Running, constraint: OutputConstraint) -> None:
    text, reason = written(running, "huge", constraint, max_tokens=20)
    assert reason in (FinishReason.LENGTH, FinishReason.STOP)
    assert text


def test_a_constraint_that_the_vocabulary_cannot_satisfy_is_rejected() -> None:
    grammars = GrammarCompiler(tokenizer_json=Tokenizer(letter_tokenizer()).to_json, eos_ids=frozenset({END}))
    grammars.compile(regex("lamp"), 100)
    with pytest.raises(InvalidRequest, match="no text satisfies it"):
        grammars.compile(regex("\u65e5"), 100)


def test_a_constraint_without_allowed_tokens_ends_its_choice_with_an_error() -> None:
    letters = letter_tokenizer()
    with running_engine(RememberingDecoder(len(letters)), letters, context_size=1024) as (engine, collector):
        engine.submit(request("dead end", regex("lamp\u65e5")))
        engine.submit(request("beside", regex("[a-z]{12}")))
        last = collector.outputs("dead end")[-1]
        assert (last.finish_reason, last.index) == (FinishReason.ERROR, 4)
        assert "no text satisfies it" in (last.error or "")
        assert len(collector.text("beside")) == 12


def test_a_constraint_on_a_model_without_an_end_token_is_rejected() -> None:
    grammars = GrammarCompiler(tokenizer_json=Tokenizer(letter_tokenizer()).to_json, eos_ids=frozenset())
    with pytest.raises(InvalidRequest, match="no end token"):
        grammars.compile(regex("lamp"), 100)


def test_constrained_text_is_not_spelled_with_special_tokens(running: Running) -> None:
    text, _ = written(running, "special", regex(r"<\|user\|>[a-z]{3}"))
    assert re.fullmatch(r"<\|user\|>[a-z]{3}", text)
    assert SPECIAL[3] == "<|user|>"
