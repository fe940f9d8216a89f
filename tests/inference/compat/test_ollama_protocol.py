"""Ollama's requests become the engine's requests, and its outputs become lines of JSON."""

import json
from typing import Any

from inference.engine import ConstraintKind, FinishReason, GenerationOutput, Message, ToolCall, ToolCallDelta, Usage
from inference.protocol.choices import GeneratedChoice
from inference.protocol.ollama.requests import parse_chat_request, parse_generate_request
from inference.protocol.ollama.responses import OllamaResponder

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
USAGE = Usage(7, 3)


def test_options_have_ollamas_defaults_and_names():
    plain = parse_chat_request(CHAT).generation_request("r").sampling
    assert (plain.temperature, plain.top_p, plain.top_k, plain.repeat_penalty) == (0.8, 0.9, 40, 1.1)
    assert (plain.max_tokens, plain.stop, plain.constraint) == (None, (), None)

    options = {"temperature": 0, "num_predict": 5, "stop": ["END"], "seed": 3, "min_p": 0.1, "top_k": None}
    sampling = parse_chat_request(CHAT | {"options": options, "format": "json"}).generation_request("r").sampling
    assert (sampling.temperature, sampling.max_tokens, sampling.stop, sampling.seed) == (0, 5, ("END",), 3)
    assert (sampling.min_p, sampling.top_k) == (0.1, 40)
    assert sampling.constraint is not None
    assert sampling.constraint.kind is ConstraintKind.JSON_OBJECT


def test_tool_answers_belong_to_calls_in_order():
    calls = [{"function": {"name": name, "arguments": {"city": name}}} for name in ("a", "b")]
    messages = [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "rain", "tool_name": "a"},
        {"role": "tool", "content": "sun", "tool_name": "b"},
    ]
    request = parse_chat_request(CHAT | {"messages": messages}).generation_request("r")

    assert request.messages == (
        Message(
            "assistant",
            "",
            (ToolCall("call_00001", "a", '{"city": "a"}'), ToolCall("call_00002", "b", '{"city": "b"}')),
        ),
        Message("tool", "rain", tool_call_id="call_00001"),
        Message("tool", "sun", tool_call_id="call_00002"),
    )


def test_a_prompt_passes_the_chat_template_unless_it_is_raw():
    body = {"model": "m", "prompt": "Hello", "system": "Be kind."}
    request = parse_generate_request(body).generation_request("r")
    assert (request.prompt, request.messages) == (None, (Message("system", "Be kind."), Message("user", "Hello")))
    raw = parse_generate_request({"model": "m", "prompt": "Hello", "raw": True}).generation_request("r")
    assert (raw.prompt, raw.messages) == ("Hello", None)


def output(text: str = "", *calls: ToolCallDelta, reason: FinishReason | None = None, **more: Any) -> GenerationOutput:
    usage = USAGE if reason else None
    return GenerationOutput(
        request_id="r", index=0, text=text, tool_calls=calls, finish_reason=reason, usage=usage, **more
    )


OUTPUTS = [
    output("I order"),
    output("", ToolCallDelta(0, "call_1", "order", '{"amount"')),
    output("", ToolCallDelta(0, None, None, ": 2}")),
    output("", ToolCallDelta(1, "call_2", "order", '{"amou'), reason=FinishReason.LENGTH),
]


def test_a_stream_has_complete_tool_calls_before_its_end():
    responder = OllamaResponder("m", is_chat=True)
    lines = [json.loads(line) for one in OUTPUTS for line in responder.lines(one)]

    assert [line["message"]["content"] for line in lines] == ["I order", "", ""]
    assert lines[1]["message"]["tool_calls"] == [{"function": {"name": "order", "arguments": {"amount": 2}}}]
    assert [line["done"] for line in lines] == [False, False, True]
    assert (lines[2]["done_reason"], lines[2]["prompt_eval_count"], lines[2]["eval_count"]) == ("length", 7, 3)
    assert "eval_count" not in lines[0]


def test_a_whole_response_has_the_text_and_complete_calls():
    choice = GeneratedChoice(0)
    for one in OUTPUTS:
        choice.add(one)
    response = OllamaResponder("m", is_chat=True).whole(choice, USAGE)
    assert response.message.content == "I order"
    assert [call.function.arguments for call in response.message.tool_calls] == [{"amount": 2}]
    assert OllamaResponder("m", is_chat=False).whole(choice, USAGE).response == "I order"


def test_reasoning_is_separate_unless_it_is_switched_off():
    request = parse_chat_request(CHAT | {"think": "low"}).generation_request("r")
    assert (request.template_options, request.thinking) == ({"reasoning_effort": "low"}, True)
    assert parse_chat_request(CHAT | {"think": False}).generation_request("r").thinking is False
    assert parse_chat_request(CHAT).generation_request("r").thinking is None

    for is_chat in (True, False):
        responder = OllamaResponder("m", is_chat=is_chat)
        [line] = responder.lines(output(reasoning="So"))
        piece = json.loads(line)
        assert (piece["message"] if is_chat else piece)["thinking"] == "So"


def test_s11_a_failed_stream_ends_with_an_error_and_a_silent_one_is_kept_alive():
    responder = OllamaResponder("m", is_chat=False)
    [line] = responder.lines(output("", reason=FinishReason.ERROR, error="Too late."))
    assert json.loads(line) == {"error": "Too late."}
    kept = json.loads(responder.keep_alive())
    assert (kept["response"], kept["done"]) == ("", False)
