"""The official openai client's `responses` and `conversations`, with strict response validation and a real model."""

import json
import time
from typing import Annotated, Any, Literal

import jsonschema
import openai
import pydantic
import pytest

from tests.running_stoa import RunningStoa

MODEL = "stoa-describer"
INSTRUCTIONS = "You write product descriptions for an online shop."
INPUT = "Write a product description.\nProduct name: Quellmar Kettle\nKeywords: quiet, copper base"
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "legs": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["colour", "legs"],
    "additionalProperties": False,
}
PAINT: openai.types.responses.FunctionToolParam = {
    "type": "function", "name": "paint", "description": "Paints", "parameters": SCHEMA, "strict": True
}  # fmt: skip
FINAL = ("completed", "incomplete", "failed", "cancelled")


class Stool(pydantic.BaseModel):
    """A stool, as a structured output."""

    colour: Literal["red", "blue"]
    legs: Annotated[int, pydantic.Field(ge=1, le=9)]


@pytest.fixture
def client(stoa: RunningStoa) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0, _strict_response_validation=True
    )


def ask(client: openai.OpenAI, **more: Any) -> openai.types.responses.Response:
    return client.responses.create(model=MODEL, instructions=INSTRUCTIONS, input=INPUT, temperature=0, **more)


def test_a_response_equals_the_chat_completion_of_the_same_messages(client: openai.OpenAI):
    response = ask(client)
    chat = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": INPUT}],
        temperature=0,
    )

    assert response.status == "completed"
    assert response.output_text == chat.choices[0].message.content
    assert response.usage is not None
    assert chat.usage is not None
    assert response.usage.total_tokens == chat.usage.total_tokens
    assert client.responses.retrieve(response.id) == response


def test_a_stream_through_the_clients_own_helper_ends_with_the_whole_response(client: openai.OpenAI):
    with client.responses.stream(model=MODEL, instructions=INSTRUCTIONS, input=INPUT, temperature=0) as stream:
        events = list(stream)
        final = stream.get_final_response()

    assert events[-1].type == "response.completed"
    assert final.output_text == ask(client).output_text
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_a_structured_output_is_parsed_into_a_model(client: openai.OpenAI):
    response = client.responses.parse(model=MODEL, input=INPUT, text_format=Stool)

    assert response.output_parsed is not None
    assert response.output_parsed.colour in ("red", "blue")


def test_a_function_is_called_with_valid_arguments_and_its_result_is_sent_back(client: openai.OpenAI):
    first = client.responses.create(
        model=MODEL, input=INPUT, tools=[PAINT], tool_choice={"type": "function", "name": "paint"}
    )
    [call] = [item for item in first.output if item.type == "function_call"]
    jsonschema.validate(json.loads(call.arguments), SCHEMA)
    assert call.status == "completed"

    second = client.responses.create(
        model=MODEL,
        previous_response_id=first.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "painted"}],
        tools=[PAINT],
        tool_choice="none",
        max_output_tokens=5,
    )
    assert [item.type for item in second.output] == ["message"]
    stateless = client.responses.create(
        model=MODEL,
        input=[
            {"role": "user", "content": INPUT},
            *[item.to_dict() for item in first.output],  # type: ignore[list-item]
            {"type": "function_call_output", "call_id": call.call_id, "output": "painted"},
        ],
        tools=[PAINT],
        tool_choice="none",
        max_output_tokens=5,
        store=False,
    )
    assert stateless.status == "incomplete"


def test_a_streamed_function_call_has_its_events(client: openai.OpenAI):
    events = list(
        client.responses.create(
            model=MODEL, input=INPUT, tools=[PAINT], tool_choice="required", stream=True, extra_body={"seed": 3}
        )
    )

    deltas = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    done = [event for event in events if event.type == "response.function_call_arguments.done"]
    assert deltas == "".join(event.arguments for event in done)
    jsonschema.validate(json.loads(done[0].arguments), SCHEMA)


def test_a_custom_tool_gets_a_text_that_matches_its_expression(client: openai.OpenAI):
    events = list(
        client.responses.create(
            model=MODEL,
            input=INPUT,
            tools=[
                {
                    "type": "custom",
                    "name": "wood",
                    "format": {"type": "grammar", "syntax": "regex", "definition": "(oak|brass)"},
                }
            ],
            tool_choice={"type": "custom", "name": "wood"},
            stream=True,
        )
    )

    [done] = [event for event in events if event.type == "response.custom_tool_call_input.done"]
    assert done.input in ("oak", "brass")
    final: Any = events[-1]
    assert final.response.output[0].type == "custom_tool_call"


def test_log_probabilities_are_returned_where_they_are_requested(client: openai.OpenAI):
    response = ask(client, include=["message.output_text.logprobs"], top_logprobs=2, max_output_tokens=4)

    part: Any = response.output[0].content[0]  # type: ignore[union-attr]
    assert "".join(one.token for one in part.logprobs) == part.text
    assert all(len(one.top_logprobs) == 2 for one in part.logprobs)


def test_an_input_is_counted_and_truncated(client: openai.OpenAI):
    response = ask(client, max_output_tokens=1)
    counted = client.responses.input_tokens.count(model=MODEL, instructions=INSTRUCTIONS, input=INPUT)
    assert response.usage is not None
    assert counted.input_tokens == response.usage.input_tokens

    long: list[Any] = [{"role": "user", "content": f"{number}: a lamp " * 60} for number in range(60)]
    assert client.responses.input_tokens.count(model=MODEL, input=long).input_tokens > 2048
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=MODEL, input=long)
    assert caught.value.code == "context_length_exceeded"
    assert client.responses.create(model=MODEL, input=long, truncation="auto", max_output_tokens=5).output_text


def test_a_compaction_stands_for_a_conversation(client: openai.OpenAI):
    compacted = client.responses.compact(model=MODEL, input=[{"role": "user", "content": INPUT}])
    assert [item.type for item in compacted.output] == ["compaction"]

    response = client.responses.create(
        model=MODEL,
        input=[compacted.output[0].to_dict(), {"role": "user", "content": INPUT}],  # type: ignore[list-item]
        max_output_tokens=5,
    )
    assert response.output_text


def test_a_background_response_is_polled_and_read_again(client: openai.OpenAI):
    queued = ask(client, background=True)
    deadline = time.monotonic() + 60
    while (response := client.responses.retrieve(queued.id)).status not in FINAL:
        assert time.monotonic() < deadline
        time.sleep(0.1)

    assert response.output_text == ask(client).output_text
    events = list(client.responses.retrieve(queued.id, stream=True, starting_after=1))
    assert [event.sequence_number for event in events] == list(range(2, 2 + len(events)))
    client.responses.delete(queued.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(queued.id)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}, "tools[0].type"),
        (
            {"tools": [{"type": "function", "name": "f", "parameters": {}, "defer_loading": True}]},
            "tools[0].defer_loading",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://x.example/x.png"}]}]},
            "input[0].content[0].type",
        ),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
        ({"input": []}, "input"),
        ({"reasoning": {"effort": "much"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "auto"}}, "reasoning.summary"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"moderation": {"model": "m"}}, "moderation"),
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"include": ["web_search_call.results"]}, "include[0]"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"stream_options": {"include_obfuscation": True}, "stream": True}, "stream_options.include_obfuscation"),
        ({"background": True, "store": False}, "store"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"metadata": {"k": "v" * 513}}, "metadata"),
        ({"guided_json": {}}, "guided_json"),
        ({"previous_response_id": "resp_1", "conversation": "conv_1"}, "previous_response_id"),
        ({"tool_choice": {"type": "function", "name": "fly"}, "tools": [PAINT]}, "tool_choice"),
    ],
)
def test_what_is_not_supported_is_refused_by_its_name(client: openai.OpenAI, wrong: dict[str, Any], param: str):
    body = {"model": MODEL, "input": INPUT} | wrong
    with pytest.raises(openai.BadRequestError) as caught:
        client.post("/responses", body=body, cast_to=object)

    assert str(caught.value.param).startswith(param)
    assert param.split("[")[0].split(".")[0] in caught.value.message
