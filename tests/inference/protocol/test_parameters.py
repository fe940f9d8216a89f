"""Bodies are parsed into wire structs strictly, and an error names the field."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from inference.engine import (
    SAMPLING_PARAMETERS,
    ConstraintKind,
    InvalidRequest,
    Message,
    OutputConstraint,
    SamplingParams,
    Tool,
    ToolCall,
)
from inference.protocol.native.batches import BatchItem, to_inference_request
from inference.protocol.native.embeddings import EmbeddingsRequest
from inference.protocol.native.inference import InferenceRequest
from inference.protocol.native.models import LoadModelRequest
from inference.protocol.native.websocket import parse_client_message
from inference.protocol.openai.chat import ChatCompletionRequest, parse_chat_request
from inference.protocol.openai.compatible_fields import IGNORED_FIELDS
from inference.protocol.openai.completions import CompletionRequest, parse_completion_request
from inference.protocol.openai.embeddings import OpenAIEmbeddingsRequest
from inference.protocol.parameters import CLIENT_PARAMETERS
from inference.protocol.parsing import parse_struct

NATIVE = {"model": "m", "prompt": "p"}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}

# A value of each wrong kind for every parameter that both surfaces have.
WRONG = [
    *[("max_tokens", value) for value in (0, -1, 10**30, True, "3", [3], 2.5)],
    *[("temperature", value) for value in (-0.1, 2.1, True, "1", [1])],
    *[("top_p", value) for value in (-0.1, 1.1, False, "1")],
    *[("top_k", value) for value in (-2, 1001, True, "5", 1.5)],
    *[("repeat_penalty", value) for value in (0, -1, 2.1, True, "1")],
    *[("seed", value) for value in (2**63, -(2**63) - 1, True, "1")],
    *[("stop", value) for value in (["a"] * 17, ["a" * 257], [""], [1], 3, {"a": 1})],
]


@pytest.mark.parametrize(("field", "value"), WRONG, ids=lambda part: repr(part)[:30])
def test_i4_an_error_names_the_parameter_that_is_out_of_bounds_on_each_surface(field: str, value: object):
    for refuse in (
        lambda: parse_struct(NATIVE | {field: value}, InferenceRequest),
        lambda: parse_chat_request(CHAT | {field: value}),
        lambda: parse_completion_request(NATIVE | {field: value}),
    ):
        with pytest.raises(InvalidRequest, match=field) as caught:
            refuse()
        assert str(caught.value.details["field"]).startswith(field)


SURFACES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "inference": lambda fields: parse_struct(NATIVE | fields, InferenceRequest),
    "chat": lambda fields: parse_chat_request(CHAT | fields),
    "completions": lambda fields: parse_completion_request(NATIVE | fields),
    "websocket": lambda fields: parse_client_message({"type": "inference", "id": "a"} | NATIVE | fields),
    "batch": lambda fields: to_inference_request({"id": "a", "prompt": "p"} | fields, model_id="m", parameters={}),
    "batch item": lambda fields: parse_struct({"id": "a", "prompt": "p"} | fields, BatchItem),
}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("temperature", 3, "`temperature` must be a number from 0 to 2, not 3."),
        ("temperature", "1", '`temperature` must be a number from 0 to 2, not "1".'),
        ("temperature", 2.0000001, "`temperature` must be a number from 0 to 2, not 2.0000001."),
        ("seed", 10**400, f"`seed` must be an integer from {-(2**63)} to {2**63 - 1}, not 1{'0' * 39}."),
        ("top_k", True, "`top_k` must be an integer from 0 to 1000, not true."),
        ("repeat_penalty", 0, "`repeat_penalty` must be a number above 0 and at most 2, not 0."),
        ("n", 9, "`n` must be an integer from 1 to 8, not 9."),
        ("timeout", 0.5, "`timeout` must be a number from 1 to 600, not 0.5."),
        ("stop", ["a"] * 17, "`stop` must be at most 16 strings of 1 to 256 characters."),
        ("logit_bias", {"1": 101}, "`logit_bias` must be at most 1024 token ids with numbers from -100 to 100."),
    ],
)
def test_a_wrong_parameter_reads_the_same_on_every_surface(surface: str, field: str, value: object, message: str):
    with pytest.raises(InvalidRequest) as caught:
        SURFACES[surface]({field: value})

    assert caught.value.message == message


@pytest.mark.parametrize("struct", [InferenceRequest, ChatCompletionRequest, CompletionRequest, BatchItem])
def test_a_surface_has_all_parameters_with_the_bounds_of_the_engine(struct: type[msgspec.Struct]):
    fields = msgspec.json.schema(struct)["$defs"][struct.__name__]["properties"]

    for name, parameter in CLIENT_PARAMETERS.items():
        keywords = {
            "minimum": parameter.bounds.minimum,
            "exclusiveMinimum": parameter.bounds.above,
            "maximum": parameter.bounds.maximum,
        }
        limits = {keyword: limit for keyword, limit in keywords.items() if limit is not None}
        if (struct, name) == (CompletionRequest, "max_tokens"):
            limits["minimum"] = 0  # with `echo`
        parts = [fields[name], *fields[name].get("anyOf", ())]
        assert any(limits.items() <= part.items() for part in parts), name


@pytest.mark.parametrize("name", [name for name in SAMPLING_PARAMETERS if name not in ("logprobs", "constraint")])
@pytest.mark.parametrize("surface", ["inference", "chat", "completions"])
def test_every_parameter_reaches_the_engine(surface: str, name: str):
    example = msgspec.to_builtins(SAMPLING_PARAMETERS[name].example, str_keys=True)
    request = SURFACES[surface]({name: example})

    generations = request.generation_requests("r") if surface == "completions" else [request.generation_request("r")]

    expected = getattr(SamplingParams(**{name: SAMPLING_PARAMETERS[name].example}), name)
    assert [getattr(generation.sampling, name) for generation in generations] == [expected]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("max_tokens", value) for value in (1, 2**31 - 1)],
        *[("temperature", value) for value in (0, 2, 1.5)],
        *[("top_p", value) for value in (0, 1)],
        *[("top_k", value) for value in (0, 1000)],
        *[("repeat_penalty", value) for value in (0.01, 2)],
        *[("seed", value) for value in (2**63 - 1, -(2**63), 0)],
        *[("stop", value) for value in (["a" * 256] * 16, [])],
    ],
)
def test_a_parameter_at_its_bound_is_accepted_on_each_surface(field: str, value: object):
    expected = tuple(value) if isinstance(value, list) else value
    native, chat = parse_struct(NATIVE | {field: value}, InferenceRequest), parse_chat_request(CHAT | {field: value})
    for request in (
        native.generation_request("id"),
        chat.generation_request("id"),
        *parse_completion_request(NATIVE | {field: value}).generation_requests("id"),
    ):
        assert getattr(request.sampling, field) == expected


def test_a_native_request_without_parameters_has_the_native_defaults():
    sampling = parse_struct(NATIVE, InferenceRequest).generation_request("id").sampling

    assert (sampling.max_tokens, sampling.temperature, sampling.top_p) == (100, 0.7, 0.9)
    assert (sampling.top_k, sampling.repeat_penalty, sampling.stop, sampling.seed) == (40, 1.1, (), None)


def test_a_chat_without_parameters_has_openais_defaults():
    request = parse_chat_request(CHAT).generation_request("id")

    assert request.prompt is None
    assert (request.sampling.max_tokens, request.sampling.temperature, request.sampling.top_p) == (None, 1.0, 1.0)
    assert (request.sampling.top_k, request.sampling.repeat_penalty, request.sampling.stop) == (0, 1.0, ())


@pytest.mark.parametrize("field", ["tempersture", "guided_jsonn", "logits_bias"])
def test_an_unknown_field_is_rejected_on_each_surface(field: str):
    for refuse in (
        lambda: parse_struct(NATIVE | {field: 1}, InferenceRequest),
        lambda: parse_chat_request(CHAT | {field: 1}),
        lambda: parse_completion_request(NATIVE | {field: 1}),
        lambda: parse_struct({"model": "m", "input": "a", field: 1}, OpenAIEmbeddingsRequest),
    ):
        with pytest.raises(InvalidRequest, match=f"`{field}` is not a field of this request") as caught:
            refuse()
        assert caught.value.details == {"field": field}


IGNORED: dict[str, object] = {
    "user": "u",
    "metadata": {"job": "7"},
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "request_id": "r",
    "cache_salt": "c",
    "cache_prompt": True,
    "timings_per_token": False,
    "guided_decoding_backend": "xgrammar",
}


def test_fields_without_effect_are_accepted_under_v1_and_named():
    plain, chat = parse_chat_request(CHAT), parse_chat_request(CHAT | IGNORED)

    assert chat.ignored_fields == IGNORED_FIELDS == tuple(IGNORED)
    assert parse_completion_request(NATIVE | {"user": "u"}).ignored_fields == ("user",)
    assert plain.ignored_fields == parse_completion_request(NATIVE | {"user": None}).ignored_fields == ()
    assert chat.generation_request("r") == plain.generation_request("r")
    embeddings = {"model": "m", "input": "a"}
    assert parse_struct(embeddings | {"user": "u"}, OpenAIEmbeddingsRequest).ignored_fields == ("user",)


@pytest.mark.parametrize(
    ("field", "neutral", "other"),
    [
        ("skip_special_tokens", True, False),
        ("add_generation_prompt", True, False),
        ("use_beam_search", False, True),
        ("length_penalty", 1.0, 2),
        ("typical_p", 1, 0.5),
        ("best_of", 1, 2),
        ("truncate_prompt_tokens", None, 5),
        ("store", False, True),
    ],
)
def test_a_field_of_other_servers_is_accepted_with_its_neutral_value_only(field: str, neutral: object, other: object):
    plain = parse_chat_request(CHAT).generation_request("r")
    assert parse_chat_request(CHAT | {field: neutral}).generation_request("r") == plain
    for refuse in (
        lambda: parse_chat_request(CHAT | {field: other}),
        lambda: parse_completion_request(NATIVE | {field: other}),
    ):
        with pytest.raises(InvalidRequest, match=f"`{field}` is not supported"):
            refuse()


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
JSON_SCHEMA = '{"type": "object", "properties": {"a": {"type": "integer"}}}'


@pytest.mark.parametrize(
    ("fields", "kind", "definition", "parameter"),
    [
        ({"guided_json": SCHEMA}, ConstraintKind.JSON_SCHEMA, JSON_SCHEMA, "guided_json"),
        ({"guided_json": JSON_SCHEMA}, ConstraintKind.JSON_SCHEMA, JSON_SCHEMA, "guided_json"),
        ({"guided_regex": "a+"}, ConstraintKind.REGEX, "a+", "guided_regex"),
        ({"guided_choice": ["a", '"']}, ConstraintKind.GRAMMAR, 'start: "a" | "\\""', "guided_choice"),
        ({"guided_grammar": 'root ::= "a"'}, ConstraintKind.GRAMMAR, 'root ::= "a"', "guided_grammar"),
        ({"json_schema": SCHEMA}, ConstraintKind.JSON_SCHEMA, JSON_SCHEMA, "json_schema"),
        ({"grammar": 'root ::= "a"'}, ConstraintKind.GRAMMAR, 'root ::= "a"', None),
        ({"structured_outputs": {"json": SCHEMA}}, ConstraintKind.JSON_SCHEMA, JSON_SCHEMA, "structured_outputs.json"),
        ({"structured_outputs": {"regex": "a+"}}, ConstraintKind.REGEX, "a+", "structured_outputs.regex"),
        ({"structured_outputs": {"choice": ["a"]}}, ConstraintKind.GRAMMAR, 'start: "a"', "structured_outputs.choice"),
        ({"structured_outputs": {"json_object": True}}, ConstraintKind.JSON_OBJECT, "", None),
        ({"response_format": {"type": "json_object"}}, ConstraintKind.JSON_OBJECT, "", None),
        (
            {"response_format": {"type": "json_object", "schema": SCHEMA}},
            ConstraintKind.JSON_SCHEMA,
            JSON_SCHEMA,
            None,
        ),
    ],
    ids=str,
)
def test_constraints_of_vllm_and_llama_cpp_reach_the_engine(
    fields: dict[str, object], kind: ConstraintKind, definition: str, parameter: str | None
):
    expected = OutputConstraint(kind, definition, parameter)

    [completion] = parse_completion_request(NATIVE | fields).generation_requests("r")
    chat = parse_chat_request(CHAT | fields).generation_request("r")

    assert chat.sampling.constraint == completion.sampling.constraint == expected


def test_other_names_of_sampling_parameters_reach_the_engine():
    fields = {"repetition_penalty": 1.3, "top_k": -1, "min_p": 0.1, "stop_token_ids": [7, 9]}
    sampling = parse_chat_request(CHAT | fields).generation_request("r").sampling

    assert (sampling.repeat_penalty, sampling.top_k, sampling.min_p, sampling.stop_token_ids) == (1.3, 0, 0.1, (7, 9))
    with pytest.raises(InvalidRequest, match="`repetition_penalty` and `repeat_penalty` are the same"):
        parse_chat_request(CHAT | {"repetition_penalty": 1.3, "repeat_penalty": 1.2}).generation_request("r")


@pytest.mark.parametrize(
    ("fields", "options", "thinking"),
    [
        ({}, {}, None),
        ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}, None),
        ({"reasoning_effort": "none"}, {}, False),
        ({"chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False}, None),
        ({"reasoning_effort": "high", "chat_template_kwargs": {"a": 1}}, {"a": 1, "reasoning_effort": "high"}, None),
    ],
    ids=str,
)
def test_options_of_reasoning_reach_the_engine(fields: dict[str, object], options: object, thinking: bool | None):
    request = parse_chat_request(CHAT | fields).generation_request("r")
    assert (request.template_options, request.thinking, request.separates_reasoning) == (options, thinking, True)
    twice = {"reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "high"}}
    with pytest.raises(InvalidRequest, match="send one of them"):
        parse_chat_request(CHAT | twice).generation_request("r")


def test_one_parallel_tool_call_is_requested_of_the_engine():
    assert parse_chat_request(CHAT).generation_request("r").parallel_tool_calls
    assert not parse_chat_request(CHAT | {"parallel_tool_calls": False}).generation_request("r").parallel_tool_calls


def test_a_number_without_fraction_is_an_integer_on_each_surface():
    fields = {"max_tokens": 10.0, "n": 2.0, "stop_token_ids": [3.0]}
    native, chat = parse_struct(NATIVE | fields, InferenceRequest), parse_chat_request(CHAT | fields)
    for request in (
        native.generation_request("r"),
        chat.generation_request("r"),
        *parse_completion_request(NATIVE | fields).generation_requests("r"),
    ):
        assert (request.sampling.max_tokens, request.n, request.sampling.stop_token_ids) == (10, 2, (3,))
    with pytest.raises(InvalidRequest, match=r"`max_tokens` must be an integer from 1 to 2147483647, not 10\.5"):
        parse_chat_request(CHAT | {"max_tokens": 10.5})


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
def test_a_part_that_is_no_text_is_rejected_by_its_kind(kind: str):
    content = [{"type": "text", "text": "What is this?"}, {"type": kind, kind: {"url": "data:,"}}]

    with pytest.raises(InvalidRequest, match=f"reads text only: send parts of type `text`, not '{kind}'") as caught:
        parse_chat_request(CHAT | {"messages": [{"role": "user", "content": content}]})

    assert caught.value.details == {"field": "messages[0].content[1]"}


def test_an_error_names_the_missing_field():
    with pytest.raises(InvalidRequest, match="`model` is required"):
        parse_struct({"prompt": "p"}, InferenceRequest)


@pytest.mark.parametrize(
    "fields",
    [
        {"functions": [{"name": "look"}]},
        {"n": 9},
        {"n": True},
        {"timeout": 0.5},
        {"priority": 11},
        {"min_p": 1.5},
        {"presence_penalty": -2.5},
        {"frequency_penalty": "1"},
        {"min_tokens": -1},
        {"ignore_eos": 1},
        {"logprobs": 3},
        {"logit_bias": {"a": 1}},
        {"logit_bias": dict.fromkeys(map(str, range(1025)), 1)},
        {"regex": "a" * 65_537},
        {"grammar": ["start"]},
        {"tool_choice": "maybe"},
        {"store": True},
        {"service_tier": "flex"},
        {"prompt_cache_retention": "24h"},
        {"prompt_cache_options": {"mode": "explicit"}},
        {"moderation": {"model": "m"}},
        {"reasoning_effort": "much"},
        {"verbosity": "low"},
        {"audio": {"voice": "v"}},
        {"web_search_options": {}},
        {"prediction": {"type": "content"}},
        {"modalities": ["audio"]},
        {"function_call": "auto"},
        {"chat_template": "{{ 1 }}"},
        {"chat_template_kwargs": [True]},
        {"chat_template_args": {"tokenize": True}},
        {"stream_options": {"include_usage": True}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_an_error_names_the_field_that_v1_does_not_support(fields: dict[str, object]):
    name = next(iter(fields))

    with pytest.raises(InvalidRequest, match=name) as caught:
        parse_chat_request(CHAT | fields)

    assert caught.value.details == {"field": name}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"logit_bias": {"1": 101}}, "logit_bias[...]"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "tool_calls": [{"id": "c", "function": {"name": "x" * 65, "arguments": "{}"}}],
                    }
                ]
            },
            "messages[0].tool_calls[0].function.name",
        ),
    ],
)
def test_an_error_has_the_path_of_a_nested_field(fields: dict[str, object], named: str):
    with pytest.raises(InvalidRequest) as caught:
        parse_chat_request(CHAT | fields)

    assert caught.value.details == {"field": named}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"regex": "a", "grammar": "start: x"}, "regex"),
        ({"regex": "a", "response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_contradicting_fields_are_rejected_on_every_surface(fields: dict[str, object], named: str):
    for body in (parse_chat_request(CHAT | fields), parse_struct(NATIVE | fields, InferenceRequest)):
        with pytest.raises(InvalidRequest) as caught:
            body.generation_request("r")

        assert caught.value.details == {"field": named}


def test_extra_sampling_parameters_are_the_same_on_every_surface():
    fields = {
        "min_p": 0.1,
        "presence_penalty": 0.5,
        "frequency_penalty": -1,
        "logit_bias": {"7": 5, "0": -100},
        "min_tokens": 3,
        "ignore_eos": True,
        "logprobs": True,
        "top_logprobs": 2,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "null"}}},
    }
    expected = {
        "min_p": 0.1,
        "presence_penalty": 0.5,
        "frequency_penalty": -1.0,
        "logit_bias": {7: 5.0, 0: -100.0},
        "min_tokens": 3,
        "ignore_eos": True,
        "logprobs": 2,
        "constraint": OutputConstraint(ConstraintKind.JSON_SCHEMA, '{"type": "null"}'),
    }

    for body in (parse_chat_request(CHAT | fields), parse_struct(NATIVE | fields, InferenceRequest)):
        sampling = body.generation_request("r").sampling
        assert {name: getattr(sampling, name) for name in expected} == expected


def test_tools_and_their_messages_reach_the_engine():
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    schema = {"type": "object"}
    body = parse_chat_request(
        {
            "model": "m",
            "messages": [
                {"role": "user", "content": "look"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "content": "dark", "tool_call_id": "c1"},
            ],
            "tools": [{"type": "function", "function": {"name": "look", "parameters": schema, "strict": True}}],
            "tool_choice": {"type": "function", "function": {"name": "look"}},
        }
    )

    request = body.generation_request("r")

    assert request.messages == (
        Message("user", "look"),
        Message("assistant", "", (ToolCall("c1", "look", '{"at": 1}'),)),
        Message("tool", "dark", tool_call_id="c1"),
    )
    assert (request.tools, request.tool_choice) == ((Tool("look", "", schema),), "look")


def test_neutral_values_of_unsupported_fields_are_accepted_under_v1():
    neutral = {
        "n": 1,
        "tools": None,
        "logprobs": False,
        "logit_bias": {},
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "response_format": {"type": "text"},
        "user": "u",
        "metadata": {"a": "b"},
        "store": False,
        "safety_identifier": "s",
        "service_tier": "auto",
        "prompt_cache_key": "k",
        "parallel_tool_calls": True,
        "temperature": None,
        "stop": None,
    }

    assert parse_chat_request(CHAT | neutral).generation_request("r") == parse_chat_request(CHAT).generation_request(
        "r"
    )


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "tool", "content": "x"}],
        [{"role": "user", "content": "x", "tool_call_id": "c1"}],
        [{"role": "user", "content": "x", "tool_calls": [{"id": "a", "function": {"name": "a", "arguments": ""}}]}],
        [{"role": "assistant", "tool_calls": [{"id": "a"}]}],
        [{"role": "USER", "content": "x"}],
        [{"role": "user"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": 3}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1"}}]}],
        ["hi"],
        "hi",
        None,
    ],
)
def test_i4_an_error_names_the_messages_field(messages: object):
    with pytest.raises(InvalidRequest, match="messages"):
        parse_chat_request({"model": "m", "messages": messages})


def test_text_parts_are_joined_and_developer_means_system():
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "lamp"}]
    body = parse_chat_request(
        {"model": "m", "messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]}
    )

    messages = body.generation_request("id").messages
    assert messages is not None
    assert [(message.role, message.content) for message in messages] == [("system", "Be brief."), ("user", "a lamp")]


def test_a_stop_string_is_a_list_of_one_and_max_completion_tokens_overrides_max_tokens():
    sampling = (
        parse_chat_request(CHAT | {"stop": ".", "max_tokens": 9, "max_completion_tokens": 7})
        .generation_request("i")
        .sampling
    )

    assert (sampling.stop, sampling.max_tokens) == ((".",), 7)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gpu_layers", -1),
        ("context_size", 0),
        ("batch_size", 10**9),
        ("max_sequences", 0),
        ("gpu_layers", True),
        ("quantization", "int2"),
        ("quantization", None),
        ("dtype", "float64"),
        ("dtype", 32),
    ],
)
def test_i4_an_error_names_the_load_option_that_is_out_of_bounds(field: str, value: object):
    with pytest.raises(InvalidRequest, match=field):
        parse_struct({field: value}, LoadModelRequest)


@pytest.mark.parametrize("texts", [[], ["a"] * 2049, [1], 3, None, [["a"]]])
def test_i4_an_error_names_an_embedding_input_that_is_out_of_bounds(texts: object):
    with pytest.raises(InvalidRequest, match="input"):
        parse_struct({"model": "m", "input": texts}, EmbeddingsRequest)
