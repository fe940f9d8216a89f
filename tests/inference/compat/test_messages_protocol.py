"""Anthropic's messages become the engine's requests, and its outputs become Anthropic's blocks and events."""

import json
from typing import Any

import pytest

from inference.engine import (
    ConstraintKind,
    FinishReason,
    GenerationOutput,
    InvalidRequest,
    Message,
    OutputConstraint,
    Tool,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from inference.protocol.anthropic.requests import parse_count_tokens_request, parse_messages_request
from inference.protocol.anthropic.responses import MessageStreamEncoder, build_message
from inference.protocol.choices import GeneratedChoice

USER = {"role": "user", "content": "Order two lamps."}
BODY: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [USER]}
SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}}
ORDER = {"name": "order", "description": "Orders", "input_schema": SCHEMA}
USAGE = Usage(7, 3, cached_tokens=4)


def test_a_conversation_with_tools_becomes_the_engines_messages():
    call = {"type": "tool_use", "id": "toolu_1", "name": "order", "input": {"amount": 2}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "no stock"}]}
    turns = [
        USER,
        {"role": "user", "content": [{"type": "text", "text": "Soon.", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, call]},
        {"role": "user", "content": [result | {"is_error": True}, {"type": "text", "text": "What now?"}]},
    ]
    body = BODY | {"messages": turns, "system": [{"type": "text", "text": "Be kind."}], "tools": [ORDER]}

    request = parse_messages_request(body).generation_request("r")

    assert request.messages == (
        Message("system", "Be kind."),
        Message("user", "Order two lamps.\n\nSoon."),
        Message("assistant", "", (ToolCall("toolu_1", "order", '{"amount": 2}'),)),
        Message("tool", "Error: no stock", tool_call_id="toolu_1"),
        Message("user", "What now?"),
    )
    assert request.tools == (Tool("order", "Orders", SCHEMA),)
    counted = parse_count_tokens_request({name: value for name, value in body.items() if name != "max_tokens"})
    assert counted.tokenization_request().messages == request.messages
    assert counted.tokenization_request().tools == request.tools


def test_sampling_parameters_have_anthropics_defaults_and_names():
    plain = parse_messages_request(BODY).generation_request("r").sampling
    assert (plain.max_tokens, plain.temperature, plain.top_p, plain.top_k, plain.stop) == (9, 1.0, 1.0, 0, ())

    fields = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop_sequences": ["END"]}
    fields["output_config"] = {"format": {"type": "json_schema", "schema": SCHEMA}}
    sampling = parse_messages_request(BODY | fields).generation_request("r").sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.stop) == (0.5, 0.9, 5, ("END",))
    schema = json.dumps(SCHEMA)
    assert sampling.constraint == OutputConstraint(ConstraintKind.JSON_SCHEMA, schema, "output_config.format.schema")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ("auto", True)),
        ({"type": "auto", "disable_parallel_tool_use": True}, ("auto", False)),
        ({"type": "any"}, ("required", True)),
        ({"type": "tool", "name": "order"}, ("order", True)),
        ({"type": "none"}, ("none", True)),
    ],
)
def test_a_tool_choice_becomes_the_engines(choice: object, expected: tuple[str, bool]):
    request = parse_messages_request(BODY | {"tools": [ORDER], "tool_choice": choice}).generation_request("r")
    assert (request.tool_choice, request.parallel_tool_calls) == expected


def blocks(*content: object, role: str = "user") -> dict[str, object]:
    return {"messages": [{"role": role, "content": list(content)}]}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "a"}]}, "messages[0].role"),
        ({"messages": [USER, {"role": "assistant", "content": "The answer is"}]}, "messages"),
        (blocks(), "messages[0].content"),
        (blocks({"type": "image", "source": {"type": "url", "url": "x"}}), "messages[0].content[0]"),
        (blocks({"type": "document", "source": {}}), "messages[0].content[0]"),
        (blocks({"type": "video"}), "messages[0].content[0].type"),
        (blocks({"type": "tool_use", "id": "t", "name": "f", "input": {}}), "messages[0].content[0]"),
        (
            blocks({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image"}]}),
            "messages[0].content[0].content[0]",
        ),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0]"),
        ({"tools": [ORDER], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"container": "c"}, "container"),
        ({"speed": "fast"}, "speed"),
        ({"output_config": {"efort": "low"}}, "output_config.efort"),
        ({"temprature": 1}, "temprature"),
    ],
    ids=str,
)
def test_i4_an_error_names_the_field_that_is_not_valid(fields: dict[str, object], named: str):
    with pytest.raises(InvalidRequest) as refused:
        parse_messages_request(BODY | fields).generation_request("r")
    assert str(refused.value.details["field"]).startswith(named)


def test_fields_without_effect_are_named():
    fields = {"metadata": {"user_id": "u"}, "service_tier": "auto", "cache_control": {"type": "ephemeral"}}
    assert parse_messages_request(BODY | fields).ignored_fields == tuple(fields)
    neutral = BODY | {"speed": "standard", "context_management": {"edits": []}, "container": None}
    assert parse_messages_request(neutral).ignored_fields == ()


def output(text: str = "", *calls: ToolCallDelta, reason: FinishReason | None = None, **more: Any) -> GenerationOutput:
    usage = USAGE if reason else None
    return GenerationOutput(
        request_id="r", index=0, text=text, tool_calls=calls, finish_reason=reason, usage=usage, **more
    )


OUTPUTS = [
    output("I order"),
    output(" it."),
    output("", ToolCallDelta(0, "call_1", "order", "")),
    output("", ToolCallDelta(0, None, None, '{"amount": 2}')),
    output("", ToolCallDelta(1, "call_2", "now", "{}"), reason=FinishReason.TOOL_CALLS),
]


def parsed(events: bytes) -> list[dict[str, Any]]:
    found = []
    for event in events.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_a_stream_has_anthropics_events_in_order():
    encoder = MessageStreamEncoder("msg_1", "m")
    events = parsed(encoder.start(7) + b"".join(event for one in OUTPUTS for event in encoder.events(one)))

    assert [event["type"] for event in events] == [
        "message_start",
        *["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"],
        *["content_block_start", "content_block_delta", "content_block_stop"],
        *["content_block_start", "content_block_delta", "content_block_stop"],
        "message_delta",
        "message_stop",
    ]
    assert events[0]["message"]["usage"]["input_tokens"] == 7
    assert [event["index"] for event in events if "index" in event] == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert events[5]["content_block"] == {"type": "tool_use", "id": "call_1", "name": "order", "input": {}}
    assert events[6]["delta"] == {"type": "input_json_delta", "partial_json": '{"amount": 2}'}
    assert events[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert events[-2]["usage"] == {
        "input_tokens": 3,
        "output_tokens": 3,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 0,
    }


def test_a_whole_message_has_the_blocks_of_its_stream():
    choice = GeneratedChoice(0)
    for one in OUTPUTS:
        choice.add(one)
    message = build_message("msg_1", "m", choice, USAGE)

    assert json.loads(json.dumps([block.__class__.__name__ for block in message.content])) == [
        "TextContent",
        "ToolUseContent",
        "ToolUseContent",
    ]
    assert message.content[0].text == "I order it."
    assert [block.input for block in message.content[1:]] == [{"amount": 2}, {}]
    assert (message.stop_reason, message.stop_sequence) == ("tool_use", None)


@pytest.mark.parametrize(
    ("reason", "stop_sequence", "expected"),
    [
        (FinishReason.STOP, None, "end_turn"),
        (FinishReason.STOP, "END", "stop_sequence"),
        (FinishReason.LENGTH, None, "max_tokens"),
    ],
)
def test_the_end_of_a_message_has_anthropics_reason(reason: FinishReason, stop_sequence: str | None, expected: str):
    last = output("a", reason=reason, stop_sequence=stop_sequence)
    choice = GeneratedChoice(0)
    choice.add(last)
    message = build_message("msg_1", "m", choice, USAGE)
    assert (message.stop_reason, message.stop_sequence) == (expected, stop_sequence)
    delta = parsed(b"".join(MessageStreamEncoder("msg_1", "m").events(last)))[-2]["delta"]
    assert delta == {"stop_reason": expected, "stop_sequence": stop_sequence}


def test_a_call_that_max_tokens_cut_comes_back_as_the_same_text():
    choice = GeneratedChoice(0)
    choice.add(output("", ToolCallDelta(0, "call_1", "order", '{"amount": '), reason=FinishReason.LENGTH))
    [block] = build_message("msg_1", "m", choice, USAGE).content
    assert block.input == {"INVALID_JSON": '{"amount": '}

    call = {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
    turns = [USER, {"role": "assistant", "content": [call]}, USER]
    request = parse_messages_request(BODY | {"messages": turns}).generation_request("r")
    assert request.messages[1].tool_calls == (ToolCall("call_1", "order", '{"amount": '),)


def test_reasoning_is_a_block_before_the_text_unless_it_is_omitted():
    outputs = [
        output(reasoning="So"),
        output(reasoning=" it is."),
        output("Yes."),
        output("", reason=FinishReason.STOP),
    ]
    choice = GeneratedChoice(0)
    for one in outputs:
        choice.add(one)
    shown, hidden = (build_message("msg_1", "m", choice, USAGE, shows_thinking=shows) for shows in (True, False))
    assert [getattr(block, "thinking", None) for block in shown.content] == ["So it is.", None]
    assert [block.text for block in hidden.content] == ["Yes."]

    encoder = MessageStreamEncoder("msg_1", "m")
    events = parsed(b"".join(event for one in outputs for event in encoder.events(one)))
    assert [event.get("delta", {}).get("thinking") for event in events[:4]] == [None, "So", " it is.", None]
    assert [event["index"] for event in events if "index" in event] == [0, 0, 0, 0, 1, 1, 1]
    silent = MessageStreamEncoder("msg_1", "m", shows_thinking=False)
    assert b"thinking" not in b"".join(event for one in outputs for event in silent.events(one))


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [(None, None), ("enabled", True), ("disabled", False), ("adaptive", None)],
)
def test_thinking_is_switched_by_its_type(thinking: str | None, expected: bool | None):
    body = BODY if thinking is None else BODY | {"thinking": {"type": thinking, "budget_tokens": 1024}}
    request = parse_messages_request(body).generation_request("r")
    assert (request.thinking, request.separates_reasoning) == (expected, True)


def test_s11_a_failed_stream_ends_with_an_error():
    failed = output("", reason=FinishReason.ERROR, error="Too late.", error_code="TIMEOUT")
    [event] = parsed(b"".join(MessageStreamEncoder("msg_1", "m").events(failed)))
    assert event == {"type": "error", "error": {"type": "overloaded_error", "message": "Too late."}}
