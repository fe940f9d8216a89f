"""Items and events of a response, made from the engine's outputs, as OpenAI's client reads them."""

import json
from typing import Any

import pytest
from openai.types.responses import Response as ClientResponse
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from inference.engine import FinishReason, GenerationOutput, InvalidRequest, Message, TokenLogprob, ToolCallDelta, Usage
from inference.protocol.openai.responses.encoder import ResponseEncoder
from inference.protocol.openai.responses.request import parse_input_tokens_request, parse_response_request

REQUEST: dict[str, Any] = {"model": "m", "input": "Why?"}
_events: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def output(index: int, reason: FinishReason | None = None, **more: Any) -> GenerationOutput:
    return GenerationOutput(
        request_id="r",
        index=index,
        text=more.pop("text", ""),
        finish_reason=reason,
        usage=Usage(7, 4) if reason else None,
        **more,
    )


def encode(*outputs: GenerationOutput, **fields: Any) -> list[dict[str, Any]]:
    """Return the events of a stream, each of which OpenAI's client accepts strictly."""
    body = parse_response_request(REQUEST | fields)
    encoder = ResponseEncoder(body.to_response("resp_1", 1, "in_progress"), with_logprobs=body.has_logprobs)
    frames = [*encoder.start(), encoder.begin()]
    for one in outputs:
        frames += encoder.push(one, ended_at=2.0)
    frames.append(encoder.end())
    events = [json.loads(frame.split(b"data: ", 1)[1]) for frame in frames]
    for number, event in enumerate(events):
        assert event["sequence_number"] == number
        _events.validate_python(event)
    return events


def test_reasoning_is_an_item_before_the_message_with_events_of_its_own():
    events = encode(
        output(0, reasoning="So"),
        output(1, reasoning=" it is."),
        output(2),
        output(3, FinishReason.STOP, text="Yes."),
    )

    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert events[3]["part"] == {"type": "reasoning_text", "text": ""}
    assert [events[4]["delta"], events[5]["delta"], events[6]["text"]] == ["So", " it is.", "So it is."]
    final = ClientResponse.model_validate(events[-1]["response"])
    assert [item.type for item in final.output] == ["reasoning", "message"]
    assert events[-1]["response"]["output"][0] == {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "So it is."}],
        "id": events[2]["item"]["id"],
        "status": "completed",
    }
    assert final.output_text == "Yes."
    assert events[9]["output_index"] == 1


def test_reasoning_that_is_cut_off_is_an_incomplete_item_without_a_message():
    final = encode(output(0, FinishReason.LENGTH, reasoning="So it"))[-1]["response"]

    assert final["status"] == "incomplete"
    assert [(item["type"], item["status"]) for item in final["output"]] == [("reasoning", "incomplete")]


def test_a_call_follows_reasoning():
    call = (ToolCallDelta(0, "call_9", "look", ""), ToolCallDelta(0, None, None, "{}"))
    tools = [{"type": "function", "name": "look", "parameters": {}}]
    final = encode(output(0, reasoning="So"), output(1, FinishReason.TOOL_CALLS, tool_calls=call), tools=tools)[-1][
        "response"
    ]

    assert [(item["type"], item["status"]) for item in final["output"]] == [
        ("reasoning", "completed"),
        ("function_call", "completed"),
    ]


@pytest.mark.parametrize("parse", [parse_response_request, parse_input_tokens_request])
@pytest.mark.parametrize(
    ("reasoning", "options", "thinking"),
    [
        (None, {}, None),
        ({"effort": "low"}, {"reasoning_effort": "low"}, None),
        ({"effort": "max", "summary": None}, {"reasoning_effort": "max"}, None),
        ({"effort": "none"}, {}, False),
    ],
)
def test_the_effort_reaches_the_engine_as_that_of_a_chat_does(
    parse: Any, reasoning: object, options: object, thinking: bool | None
):
    asked = parse(REQUEST | {"reasoning": reasoning}).prompt_options()

    assert (asked["template_options"], asked["thinking"], asked["separates_reasoning"]) == (options, thinking, True)


@pytest.mark.parametrize("wrong", [{"effort": "much"}, {"summary": "auto"}, {"mode": "pro"}, {"context": "all_turns"}])
def test_another_option_of_reasoning_is_refused_by_name(wrong: dict[str, str]):
    with pytest.raises(InvalidRequest) as caught:
        parse_response_request(REQUEST | {"reasoning": wrong})
    assert caught.value.details["field"] == f"reasoning.{next(iter(wrong))}"


def test_one_parallel_tool_call_is_requested_of_the_engine():
    messages = [Message("user", "Why?")]
    for flag, allowed in ((None, True), (True, True), (False, False)):
        body = parse_response_request(REQUEST | {"parallel_tool_calls": flag})
        assert body.generation_request("r", messages).parallel_tool_calls is allowed


def test_log_probabilities_are_those_of_the_message_beside_reasoning_and_calls():
    def token(text: str) -> tuple[TokenLogprob, ...]:
        return (TokenLogprob(1, text, text.encode(), -0.5),)

    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    events = encode(
        output(0, logprobs=token("<think>")),
        output(1, reasoning="So ", logprobs=token("So ")),
        output(2, reasoning="it is.", logprobs=token("it is.")),
        output(3, logprobs=token("</think>")),
        output(4, text="Hi", logprobs=token("Hi")),
        output(5, logprobs=token("<tool_call>")),
        output(6, tool_calls=(ToolCallDelta(0, "c", "f", ""),), logprobs=token("f")),
        output(7, tool_calls=(ToolCallDelta(0, None, None, '{"a"'),), logprobs=token('{"a"')),
        output(8, tool_calls=(ToolCallDelta(0, None, None, ":1}"),), logprobs=token(":1}")),
        output(9, FinishReason.TOOL_CALLS),
        top_logprobs=1,
        include=["message.output_text.logprobs"],
        tools=[tool],
    )

    reasoning, message, call = events[-1]["response"]["output"]
    assert reasoning["content"][0]["text"] == "So it is."
    assert message["content"][0]["text"] == "Hi"
    assert "Hi" in [one["token"] for one in message["content"][0]["logprobs"]]
    assert (call["type"], call["arguments"]) == ("function_call", '{"a":1}')
