"""The official openai client against /v1/embeddings and /v1/models, on the built-in encoder.

Its strict validation rejects base64, its own default, even from OpenAI. The `lenient` client is used for base64 only.
"""

import math
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from tests.running_stoa import RunningStoa

MODEL = "stoa-encoder"
TEXTS = ["a warm lamp of brass and oak", "the quiet kettle", "a brass lamp"]


@pytest.fixture
def client(stoa: RunningStoa) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


@pytest.fixture
def lenient(stoa: RunningStoa) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0) as client:
        yield client


def product(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_texts_become_normalized_vectors_in_their_order(client: openai.OpenAI):
    answer = client.embeddings.create(model=MODEL, input=TEXTS, encoding_format="float")

    assert (answer.object, answer.model) == ("list", MODEL)
    assert [(one.object, one.index) for one in answer.data] == [("embedding", 0), ("embedding", 1), ("embedding", 2)]
    for one in answer.data:
        assert math.hypot(*one.embedding) == pytest.approx(1, abs=1e-5)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 3


def test_base64_the_default_of_the_client_is_the_same_vector(client: openai.OpenAI, lenient: openai.OpenAI):
    numbers = client.embeddings.create(model=MODEL, input=TEXTS, encoding_format="float")
    by_default = lenient.embeddings.create(model=MODEL, input=TEXTS)

    for one, other in zip(numbers.data, by_default.data, strict=True):
        assert other.embedding == pytest.approx(one.embedding, abs=1e-6)


def test_every_form_of_input_returns_the_same_vector(stoa: RunningStoa, client: openai.OpenAI):
    told = httpx2.post(
        f"{stoa.inference_url}/tokenize",
        json={"model": MODEL, "prompt": TEXTS[0]},
        headers={"Authorization": f"Bearer {stoa.api_key}"},
        timeout=30,
    )
    ids = told.json()["tokens"]
    forms: list[Any] = [TEXTS[0], [TEXTS[0]], ids, [ids]]

    answers = [client.embeddings.create(model=MODEL, input=form, encoding_format="float") for form in forms]

    for answer in answers:
        assert answer.usage.prompt_tokens == len(ids)
        assert answer.data[0].embedding == pytest.approx(answers[0].data[0].embedding, abs=1e-5)


def test_fewer_dimensions_are_the_first_ones_normalized(client: openai.OpenAI):
    whole = client.embeddings.create(model=MODEL, input="a lamp", encoding_format="float").data[0].embedding
    short = client.embeddings.create(model=MODEL, input="a lamp", encoding_format="float", dimensions=16)

    (vector,) = (one.embedding for one in short.data)
    length = math.hypot(*whole[:16])
    assert vector == pytest.approx([number / length for number in whole[:16]], abs=1e-6)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"input": []}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": [10**6]}, "input"),
        ({"dimensions": 100_000}, "dimensions"),
        ({"encoding_format": "int8"}, "encoding_format"),
    ],
    ids=lambda part: str(part)[:30],
)
def test_an_invalid_input_is_a_bad_request_that_names_it(client: openai.OpenAI, wrong: Any, param: str):
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(**{"model": MODEL, "input": "a"} | wrong)

    assert refused.value.param == param


def test_a_text_beyond_the_context_is_rejected_and_not_truncated(client: openai.OpenAI):
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model=MODEL, input=["a", "a lamp " * 5000])

    assert refused.value.code == "context_length_exceeded"


def test_models_are_listed_and_retrieved(client: openai.OpenAI):
    models = {model.id: model for model in client.models.list()}

    for name in (MODEL, "stoa-describer"):
        assert client.models.retrieve(name) == models[name]
    for unknown in ("no-such-model", "org/no-such-model"):
        with pytest.raises(openai.NotFoundError, match=MODEL):
            client.models.retrieve(unknown)


async def test_the_async_client_embeds_and_lists_models(stoa: RunningStoa):
    async with openai.AsyncOpenAI(base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0) as client:
        answer = await client.embeddings.create(model=MODEL, input=TEXTS)
        models = [model.id async for model in client.models.list()]

    assert len(answer.data) == 3
    assert product(answer.data[0].embedding, answer.data[2].embedding) > product(
        answer.data[0].embedding, answer.data[1].embedding
    )
    assert MODEL in models
