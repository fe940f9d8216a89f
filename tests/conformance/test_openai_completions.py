"""The official openai client against /v1/completions, on the built-in model.

Its strict validation rejects the streams of this endpoint, even OpenAI's own, because a chunk's finish_reason may be
null. It also rejects a prompt's first log probability, which is null. The `lenient` client is used for these only.
"""

from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from tests.running_stoa import RunningStoa

MODEL = "stoa-describer"
PROMPT = "The kettle is made of"


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


def tokenize(stoa: RunningStoa, prompt: str) -> list[int]:
    answer = httpx2.post(
        f"{stoa.inference_url}/tokenize",
        json={"model": MODEL, "prompt": prompt},
        headers={"Authorization": f"Bearer {stoa.api_key}"},
        timeout=30,
    )
    ids: list[int] = answer.json()["tokens"]
    return ids


def test_a_prompt_is_completed_without_a_chat_template(client: openai.OpenAI):
    answer = client.completions.create(model=MODEL, prompt=PROMPT, temperature=0)

    assert answer.object == "text_completion"
    assert answer.choices[0].text
    assert answer.usage is not None
    assert 0 < answer.usage.completion_tokens <= 16
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_every_form_of_prompt_returns_the_same_text(stoa: RunningStoa, client: openai.OpenAI):
    ids = tokenize(stoa, PROMPT)
    forms: list[Any] = [PROMPT, [PROMPT], ids, [ids]]

    texts = {
        client.completions.create(model=MODEL, prompt=form, seed=7, max_tokens=24).choices[0].text for form in forms
    }

    assert len(texts) == 1


def test_several_prompts_return_the_same_texts_as_single_ones(client: openai.OpenAI):
    prompts = [PROMPT, "A lamp", "Once more, the"]
    asked: dict[str, Any] = {"model": MODEL, "seed": 3, "max_tokens": 20, "n": 2}
    alone = [client.completions.create(prompt=prompt, **asked) for prompt in prompts]
    together = client.completions.create(prompt=prompts, **asked)

    assert [choice.text for choice in together.choices] == [
        choice.text for answer in alone for choice in answer.choices
    ]
    assert together.usage is not None
    assert together.usage.total_tokens == sum(answer.usage.total_tokens for answer in alone if answer.usage)


def test_a_streamed_completion_equals_the_unstreamed_one(client: openai.OpenAI, lenient: openai.OpenAI):
    asked: dict[str, Any] = {"model": MODEL, "prompt": [PROMPT, "A lamp"], "seed": 3, "max_tokens": 20, "logprobs": 2}
    whole = client.completions.create(**asked)
    chunks = list(lenient.completions.create(**asked, stream=True, stream_options={"include_usage": True}))

    for choice in whole.choices:
        pieces = [piece for chunk in chunks for piece in chunk.choices if piece.index == choice.index]
        assert "".join(piece.text for piece in pieces) == choice.text
        assert [piece.finish_reason for piece in pieces if piece.finish_reason] == [choice.finish_reason]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            told = [one for piece in pieces if piece.logprobs for one in getattr(piece.logprobs, name)]
            assert told == getattr(choice.logprobs, name)
    usage = chunks[-1].usage
    assert usage is not None
    assert whole.usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (whole.usage.prompt_tokens, whole.usage.completion_tokens)


def test_log_probabilities_have_the_offsets_of_their_tokens(client: openai.OpenAI):
    answer = client.completions.create(model=MODEL, prompt=PROMPT, temperature=0, max_tokens=12, logprobs=3)

    choice = answer.choices[0]
    told = choice.logprobs
    assert told is not None
    assert told.tokens is not None
    assert told.text_offset is not None
    assert told.token_logprobs is not None
    assert told.top_logprobs is not None
    assert "".join(told.tokens) == choice.text
    for offset, token in zip(told.text_offset, told.tokens, strict=True):
        assert choice.text.startswith(token, offset)
    for token, logprob, best in zip(told.tokens, told.token_logprobs, told.top_logprobs, strict=True):
        assert len(best) == 3
        assert best[token] == logprob == max(best.values())


def test_echo_returns_the_prompt_with_its_log_probabilities(lenient: openai.OpenAI):
    asked: dict[str, Any] = {"model": MODEL, "prompt": PROMPT, "temperature": 0, "max_tokens": 8}
    plain = lenient.completions.create(**asked)
    echoed = lenient.completions.create(**asked, echo=True, logprobs=1)

    choice = echoed.choices[0]
    assert choice.text == PROMPT + plain.choices[0].text
    assert choice.logprobs is not None
    assert choice.logprobs.tokens is not None
    assert choice.logprobs.text_offset is not None
    assert choice.logprobs.token_logprobs is not None
    assert choice.logprobs.token_logprobs[0] is None
    assert all(logprob <= 0 for logprob in choice.logprobs.token_logprobs[1:])
    shown = zip(choice.logprobs.text_offset, choice.logprobs.tokens, strict=True)
    assert "".join(token for offset, token in shown if choice.text.startswith(token, offset)) == choice.text
    assert echoed.usage is not None
    assert plain.usage is not None
    assert echoed.usage.completion_tokens == plain.usage.completion_tokens


def test_a_stop_sequence_and_a_logit_bias_apply(client: openai.OpenAI):
    asked: dict[str, Any] = {"model": MODEL, "prompt": PROMPT, "temperature": 0, "max_tokens": 30}
    whole = client.completions.create(**asked).choices[0].text
    stop = whole[8:12]
    cut = client.completions.create(**asked, stop=stop).choices[0]
    assert (cut.text, cut.finish_reason) == (whole[: whole.index(stop)], "stop")

    formed = client.completions.create(**asked, extra_body={"regex": " (oak|brass)"})
    assert formed.choices[0].text in (" oak", " brass")
    assert client.completions.create(**asked, logit_bias={"300": 100}).choices[0].text != whole


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"best_of": 3}, "best_of"),
        ({"suffix": "end"}, "suffix"),
        ({"logprobs": 6}, "logprobs"),
        ({"n": 9}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"prompt": [10**6]}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"logit_bias": {"999999999": 1}}, "logit_bias"),
    ],
)
def test_an_invalid_parameter_of_a_completion_is_a_bad_request_that_names_it(
    client: openai.OpenAI, wrong: dict[str, Any], param: str
):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(**{"model": MODEL, "prompt": PROMPT} | wrong)

    assert refused.value.param == param


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_beyond_the_context_is_rejected_before_the_stream_starts(client: openai.OpenAI, stream: bool):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=MODEL, prompt=["a", "a lamp " * 5000], stream=stream)

    assert refused.value.code == "context_length_exceeded"


async def test_the_async_client_completes_a_prompt(stoa: RunningStoa):
    asked: dict[str, Any] = {"model": MODEL, "prompt": PROMPT, "temperature": 0}
    async with openai.AsyncOpenAI(base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0) as client:
        whole = await client.completions.create(**asked)
        stream = await client.completions.create(**asked, stream=True)
        assert "".join([chunk.choices[0].text async for chunk in stream]) == whole.choices[0].text
