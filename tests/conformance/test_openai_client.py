"""The official openai client against the model server's /v1, strict: what it parses and raises is the judge."""

import openai
import pytest

from tests.running_stoa import RunningStoa

MODEL = "stoa-describer"
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


def test_chat_answers_with_text_and_true_usage(client: openai.OpenAI):
    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0)

    assert answer.object == "chat.completion"
    assert answer.model == MODEL
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_chat_streamed_is_the_same_text_as_chat_at_once(client: openai.OpenAI):
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


def test_max_tokens_ends_with_length(client: openai.OpenAI):
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


def test_several_choices_and_the_cached_prompt(client: openai.OpenAI):
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


def test_a_wrong_key_is_an_authentication_error_that_says_what_to_do(stoa: RunningStoa):
    client = openai.OpenAI(base_url=f"{stoa.inference_url}/v1", api_key="stoa_wrong_key", max_retries=0)

    with pytest.raises(openai.AuthenticationError, match="key"):
        client.chat.completions.create(model=MODEL, messages=MESSAGES)


def test_an_unknown_model_is_a_not_found_error_that_names_those_there(client: openai.OpenAI):
    with pytest.raises(openai.NotFoundError, match=MODEL):
        client.chat.completions.create(model="no-such-model", messages=MESSAGES)


@pytest.mark.parametrize(
    "wrong", [{"temperature": 3}, {"top_p": -1}, {"max_tokens": 0}, {"n": 9}, {"timeout": 0}, {"logit_bias": {"1": 5}}]
)
def test_a_parameter_that_cannot_be_is_a_bad_request_that_names_it(client: openai.OpenAI, wrong: dict[str, object]):
    with pytest.raises(openai.BadRequestError, match=next(iter(wrong))):
        client.chat.completions.create(model=MODEL, messages=MESSAGES, extra_body=wrong)


def test_an_over_long_prompt_is_refused_before_the_stream_starts(client: openai.OpenAI):
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "a lamp " * 5000}]

    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=messages, stream=True)

    assert caught.value.code == "context_length_exceeded"


async def test_the_async_client_streams_too(stoa: RunningStoa):
    async with openai.AsyncOpenAI(base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0) as client:
        stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert text
