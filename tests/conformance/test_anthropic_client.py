"""The official anthropic client against the model server's messages, with strict response validation."""

import json
from collections.abc import Iterator

import anthropic
import pytest

from tests.running_stoa import RunningStoa

MODEL = "stoa-describer"
SYSTEM = "You write product descriptions for an online shop."
MESSAGES: list[anthropic.types.MessageParam] = [
    {
        "role": "user",
        "content": "Write a product description.\nProduct name: Quellmar Kettle\nKeywords: quiet, copper base",
    },
]
PAINT: anthropic.types.ToolParam = {
    "name": "paint",
    "description": "Paint the stool.",
    "input_schema": {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}},
        "required": ["colour"],
        "additionalProperties": False,
    },
}
GREEDY = {"temperature": 0}


@pytest.fixture
def client(stoa: RunningStoa) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=stoa.inference_url, api_key=stoa.api_key, max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def test_a_streamed_message_equals_the_whole_one_with_exact_usage(client: anthropic.Anthropic):
    whole = client.messages.create(model=MODEL, max_tokens=100, system=SYSTEM, messages=MESSAGES, extra_body=GREEDY)
    with client.messages.stream(
        model=MODEL, max_tokens=100, system=SYSTEM, messages=MESSAGES, extra_body=GREEDY
    ) as stream:
        streamed = "".join(stream.text_stream)
        final = stream.get_final_message()
    counted = client.messages.count_tokens(model=MODEL, system=SYSTEM, messages=MESSAGES)

    assert whole.content[0].text == streamed == final.content[0].text
    assert whole.stop_reason == final.stop_reason == "end_turn"
    for usage in (whole.usage, final.usage):
        assert usage.input_tokens + usage.cache_read_input_tokens == counted.input_tokens
        assert usage.output_tokens > 0


def test_a_stop_sequence_ends_the_message_and_is_named(client: anthropic.Anthropic):
    whole = client.messages.create(model=MODEL, max_tokens=100, messages=MESSAGES, extra_body=GREEDY)
    text = whole.content[0].text
    stop = text.split()[3]
    answer = client.messages.create(
        model=MODEL, max_tokens=100, messages=MESSAGES, stop_sequences=["never", stop], extra_body=GREEDY
    )
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", stop)
    assert answer.content[0].text == text[: text.index(stop)]


def test_a_tool_loop_runs_and_goes_on_after_a_call_that_max_tokens_cut(client: anthropic.Anthropic):
    messages = list(MESSAGES)
    for max_tokens in (100, 44):  # 44 end in the arguments
        answer = client.messages.create(
            model=MODEL,
            max_tokens=max_tokens,
            messages=messages,
            tools=[PAINT],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
        )
        call = answer.content[-1]
        assert (call.type, call.name) == ("tool_use", "paint")
        if max_tokens == 100:
            assert answer.stop_reason == "tool_use"
            assert call.input["colour"] in ("red", "blue")
        else:
            assert answer.stop_reason == "max_tokens"
        result: anthropic.types.ToolResultBlockParam = {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": "painted",
        }
        messages += [answer.to_param(), {"role": "user", "content": [result]}]
    last = client.messages.create(model=MODEL, max_tokens=20, messages=messages, tools=[PAINT])
    assert last.role == "assistant"


def test_a_streamed_tool_call_has_the_input_of_its_pieces(client: anthropic.Anthropic):
    with client.messages.stream(
        model=MODEL, max_tokens=100, messages=MESSAGES, tools=[PAINT], tool_choice={"type": "tool", "name": "paint"}
    ) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        final = stream.get_final_message()
    assert final.content[-1].input == json.loads("".join(pieces))
    assert final.stop_reason == "tool_use"


def test_an_output_format_is_followed(client: anthropic.Anthropic):
    answer = client.messages.create(
        model=MODEL,
        max_tokens=100,
        messages=MESSAGES,
        output_config={"format": {"type": "json_schema", "schema": PAINT["input_schema"]}},
    )
    assert json.loads(answer.content[0].text)["colour"] in ("red", "blue")


def test_errors_raise_the_clients_own_classes(client: anthropic.Anthropic):
    with pytest.raises(anthropic.BadRequestError, match="maximum context length"):
        client.messages.create(model=MODEL, max_tokens=5000, messages=MESSAGES)
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="nobody", max_tokens=1, messages=MESSAGES)
    with pytest.raises(anthropic.BadRequestError, match="embeddings"):
        client.messages.create(model="stoa-encoder", max_tokens=1, messages=MESSAGES)


async def test_the_asynchronous_client_streams(stoa: RunningStoa):
    async with (
        anthropic.AsyncAnthropic(base_url=stoa.inference_url, api_key=stoa.api_key, max_retries=0) as client,
        client.messages.stream(model=MODEL, max_tokens=20, messages=MESSAGES) as stream,
    ):
        text = "".join([piece async for piece in stream.text_stream])
        final = await stream.get_final_message()
    assert final.content[0].text == text
