"""The official openai client against the model server's /v1, with strict response validation."""

import json
from typing import Annotated, Any, Literal

import jsonschema
import openai
import pydantic
import pytest

from tests.running_stoa import RunningStoa

MODEL = "stoa-describer"


class Stool(pydantic.BaseModel):
    """A stool, as a structured output."""

    colour: Literal["red", "blue"]
    legs: Annotated[int, pydantic.Field(ge=1, le=9)]


MESSAGES: list[openai.types.chat.ChatCompletionMessageParam] = [
    {"role": "system", "content": "You write product descriptions for an online shop."},
    {
        "role": "user",
        "content": "Write a product description.\nProduct name: Quellmar Kettle\nKeywords: quiet, copper base",
    },
]


@pytest.fixture
def client(stoa: RunningStoa) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0, _strict_response_validation=True
    )


def test_a_chat_returns_text_and_exact_usage(client: openai.OpenAI):
    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0)

    assert answer.object == "chat.completion"
    assert answer.model == MODEL
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_streamed_chat_has_the_same_text_as_the_unstreamed_one(client: openai.OpenAI):
    at_once = client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0)
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=MESSAGES, temperature=0, stream=True, stream_options={"include_usage": True}
        )
    )

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == at_once.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage == at_once.usage
    assert len({chunk.id for chunk in chunks}) == 1


def test_max_tokens_ends_with_finish_reason_length(client: openai.OpenAI):
    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=5)

    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5


def test_a_stop_sequence_never_reaches_the_client(client: openai.OpenAI):
    whole = client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0).choices[0].message.content
    assert whole is not None
    stop = whole[20:26]

    cut = client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0, stop=[stop])

    assert cut.choices[0].message.content == whole[: whole.index(stop)]
    assert cut.choices[0].finish_reason == "stop"


def test_the_same_seed_gives_the_same_text(client: openai.OpenAI):
    texts = [
        client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=1, seed=seed)
        .choices[0]
        .message.content
        for seed in (1, 1, 2)
    ]

    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_models_are_listed(client: openai.OpenAI):
    assert {"stoa-describer", "stoa-encoder"} <= {model.id for model in client.models.list()}


def test_several_choices_share_the_cached_prompt(client: openai.OpenAI):
    answers = [
        client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=1, seed=7, n=3, max_tokens=20)
        for _ in range(2)
    ]

    assert [choice.index for choice in answers[0].choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answers[0].choices}) == 3
    assert answers[0].choices == answers[1].choices
    usage = answers[1].usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1
    assert usage.completion_tokens <= 60


SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "legs": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["colour", "legs"],
    "additionalProperties": False,
}
TOOLS: list[openai.types.chat.ChatCompletionToolParam] = [
    {"type": "function", "function": {"name": "paint", "description": "Paints", "parameters": SCHEMA}}
]


@pytest.mark.parametrize("seed", range(3))
def test_a_structured_output_is_valid_against_its_schema(client: openai.OpenAI, seed: int):
    answer = client.chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        seed=seed,
        response_format={"type": "json_schema", "json_schema": {"name": "stool", "schema": SCHEMA, "strict": True}},
    )

    assert answer.choices[0].finish_reason == "stop"
    jsonschema.validate(json.loads(answer.choices[0].message.content or ""), SCHEMA)


def test_the_client_parses_a_structured_output_into_a_model(client: openai.OpenAI):
    answer = client.chat.completions.parse(model=MODEL, messages=MESSAGES, response_format=Stool, seed=1)

    stool = answer.choices[0].message.parsed
    assert isinstance(stool, Stool)
    assert stool.colour in ("red", "blue")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "paint"}}])
def test_a_tool_is_called_with_valid_arguments(client: openai.OpenAI, choice: Any):
    answer = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, tools=TOOLS, tool_choice=choice, seed=1, max_tokens=200
    )

    calls = answer.choices[0].message.tool_calls or []
    assert calls
    whole = calls if answer.choices[0].finish_reason == "tool_calls" else calls[:-1]
    for call in whole:
        assert call.type == "function"
        assert call.function.name == "paint"
        jsonschema.validate(json.loads(call.function.arguments), SCHEMA)


def test_a_streamed_tool_call_equals_the_unstreamed_one(client: openai.OpenAI):
    named: Any = {"type": "function", "function": {"name": "paint"}}
    at_once = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, tools=TOOLS, tool_choice=named, parallel_tool_calls=False, seed=3
    )
    with client.chat.completions.stream(
        model=MODEL, messages=MESSAGES, tools=TOOLS, tool_choice=named, seed=3
    ) as stream:
        streamed = stream.get_final_completion()

    assert at_once.choices[0].finish_reason == streamed.choices[0].finish_reason == "tool_calls"
    assert at_once.choices[0].message.content is None
    calls = [(completion.choices[0].message.tool_calls or [])[0] for completion in (at_once, streamed)]
    assert isinstance(calls[0], openai.types.chat.ChatCompletionMessageFunctionToolCall)
    assert calls[0].function.arguments == calls[1].function.arguments
    assert calls[0].id.startswith("call_")


def test_a_tool_result_is_sent_back_to_the_model(client: openai.OpenAI):
    function: Any = {"id": "call_1", "type": "function", "function": {"name": "paint", "arguments": "{}"}}
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[
            *MESSAGES,
            {"role": "assistant", "content": None, "tool_calls": [function]},
            {"role": "tool", "tool_call_id": "call_1", "content": "painted"},
        ],
        tools=TOOLS,
        tool_choice="none",
        max_tokens=5,
    )

    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].message.content


def test_requested_log_probabilities_are_returned_streamed_and_unstreamed(client: openai.OpenAI):
    asked: dict[str, Any] = {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": 8}
    plain = client.chat.completions.create(**asked)
    whole = client.chat.completions.create(**asked, logprobs=True, top_logprobs=3)
    chunks = list(client.chat.completions.create(**asked, logprobs=True, top_logprobs=3, stream=True))

    assert plain.choices[0].logprobs is None
    assert whole.choices[0].logprobs is not None
    told = whole.choices[0].logprobs.content or []
    assert bytes(byte for one in told for byte in one.bytes or []).decode() == whole.choices[0].message.content
    for one in told:
        assert one.logprob <= 0
        assert len(one.top_logprobs) == 3
        assert one.top_logprobs[0].token == one.token
    streamed = [one for chunk in chunks if (lp := chunk.choices[0].logprobs) for one in lp.content or []]
    assert [one.token for one in streamed] == [one.token for one in told]


def test_a_regex_and_a_logit_bias_constrain_the_text(client: openai.OpenAI):
    answer = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, seed=1, extra_body={"regex": "(oak|brass) lamp", "min_p": 0.01}
    )
    assert answer.choices[0].message.content in ("oak lamp", "brass lamp")

    greedy: dict[str, Any] = {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": 1}
    first = client.chat.completions.create(**greedy)
    penalised = client.chat.completions.create(**greedy, frequency_penalty=2, presence_penalty=2)
    biased = client.chat.completions.create(**greedy, logit_bias={"300": 100})
    assert first.choices == penalised.choices
    assert first.choices != biased.choices


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"regex": "(oak"}, "regex"),
        ({"grammar": "start: nothing"}, "grammar"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "x"}}}},
            "response_format",
        ),
        ({"tools": [{"type": "function", "function": {"name": "t", "parameters": {"type": "x"}}}]}, "tools"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "fly"}}}, "tool_choice"),
        ({"logit_bias": {"999999999": 1}}, "logit_bias"),
    ],
)
def test_an_unsupported_response_format_is_rejected_before_the_stream_starts(
    client: openai.OpenAI, wrong: dict[str, object], param: str
):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True, extra_body=wrong)

    assert caught.value.param == param


def test_an_invalid_key_is_an_authentication_error_with_advice(stoa: RunningStoa):
    client = openai.OpenAI(base_url=f"{stoa.inference_url}/v1", api_key="stoa_wrong_key", max_retries=0)

    with pytest.raises(openai.AuthenticationError, match="key"):
        client.chat.completions.create(model=MODEL, messages=MESSAGES)


def test_an_unknown_model_is_a_not_found_error_that_names_the_loaded_models(client: openai.OpenAI):
    with pytest.raises(openai.NotFoundError, match=MODEL):
        client.chat.completions.create(model="no-such-model", messages=MESSAGES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 3},
        {"top_p": -1},
        {"max_tokens": 0},
        {"n": 9},
        {"timeout": 0},
        {"logit_bias": {"x": 5}},
        {"min_p": 2},
    ],
)
def test_an_invalid_parameter_is_a_bad_request_that_names_it(client: openai.OpenAI, wrong: dict[str, object]):
    with pytest.raises(openai.BadRequestError, match=next(iter(wrong))):
        client.chat.completions.create(model=MODEL, messages=MESSAGES, extra_body=wrong)


def test_a_prompt_beyond_the_context_is_rejected_before_the_stream_starts(client: openai.OpenAI):
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "a lamp " * 5000}]

    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=messages, stream=True)

    assert caught.value.code == "context_length_exceeded"


async def test_the_async_client_streams(stoa: RunningStoa):
    async with openai.AsyncOpenAI(base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0) as client:
        stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert text
