"""POST /v1/completions through the official client. Its strict mode refuses every stream of this route, OpenAI's own
too (a chunk's finish_reason may not be null there), so that only whole answers are asked for strictly."""

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from inference.protocol.fields import SYSTEM_FINGERPRINT
from tests.inference.engine.processes import eventually_idle
from tests.inference.running_server import RunningServer, wait_until_generating

LONG = {"model": "talker", "prompt": ["one", "two", "three"], "max_tokens": 4000}


@pytest.fixture
def client(stoa: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{stoa.url}/v1", api_key=stoa.keys["STAFF"], max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def test_a_prompt_is_completed_with_openais_defaults(client: openai.OpenAI):
    answer = client.completions.create(model="talker", prompt="speak")

    assert answer.id.startswith("cmpl-")
    assert (answer.object, answer.model) == ("text_completion", "talker")
    assert answer.system_fingerprint == SYSTEM_FINGERPRINT
    (choice,) = answer.choices
    assert choice.text == "".join(f"w{index} " for index in range(16))
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "length", None)
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (5, 16, 21)
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 2


def test_several_prompts_are_completed_in_order_with_their_summed_usage(client: openai.OpenAI):
    answer = client.completions.create(model="talker", prompt=["aa", "bbbb", "cccccc"], n=2, max_tokens=3)

    assert [choice.index for choice in answer.choices] == list(range(6))
    assert {choice.text for choice in answer.choices} == {"w0 w1 w2 "}
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (12, 18)
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 6


@pytest.mark.parametrize("prompt", [[1, 2, 3], [[1, 2, 3]], [[1], [2, 3]]])
def test_a_prompt_may_be_token_ids(client: openai.OpenAI, prompt: list[int] | list[list[int]]):
    answer = client.completions.create(model="talker", prompt=prompt, max_tokens=2)

    asked = len([one for one in prompt if isinstance(one, list)]) or 1
    assert [choice.text for choice in answer.choices] == ["w0 w1 "] * asked


def test_a_stream_has_the_choices_of_all_prompts_and_the_usage_once(stoa: RunningServer):
    asked: dict[str, Any] = {"model": "talker", "prompt": ["aa", "bbbb"], "n": 2, "max_tokens": 3}
    with openai.OpenAI(base_url=f"{stoa.url}/v1", api_key=stoa.keys["STAFF"], max_retries=0) as client:
        chunks = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))

    texts = dict.fromkeys(range(4), "")
    ends = []
    for chunk in chunks[:-1]:
        (choice,) = chunk.choices
        texts[choice.index] += choice.text
        ends += [choice.index] if choice.finish_reason == "length" else []
        assert chunk.usage is None
    assert texts == dict.fromkeys(range(4), "w0 w1 w2 ")
    assert sorted(ends) == [0, 1, 2, 3]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (6, 12)
    assert len({(chunk.id, chunk.created, chunk.model, chunk.object) for chunk in chunks}) == 1


def test_the_end_of_the_stream_equals_openais_byte_by_byte(stoa: RunningServer):
    answer = stoa.post("/v1/completions", {"model": "talker", "prompt": "x", "max_tokens": 2, "stream": True})

    assert answer.headers["content-type"] == "text/event-stream"
    lines = [line for line in answer.text.split("\n\n") if line]
    assert '"choices":[{"text":"w0 ","index":0,"logprobs":null,"finish_reason":null}]}' in lines[0]
    assert '"choices":[{"text":"w1 ","index":0,"logprobs":null,"finish_reason":"length"}]}' in lines[1]
    assert lines[2:] == ["data: [DONE]"]


@pytest.mark.parametrize("stream", [False, True])
async def test_s2_a_disconnected_client_cancels_every_prompt(stoa: RunningServer, stream: bool):
    async with stoa.client() as client:
        asking = asyncio.create_task(client.post("/v1/completions", json=LONG | {"stream": stream}))
        await wait_until_generating(stoa, "talker")
        asking.cancel()
        await asyncio.wait({asking})
    await eventually_idle(stoa.engine, "talker", seconds=30)
    await stoa.engine.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_no_prompt_runs_if_one_is_rejected(stoa: RunningServer, stream: bool):
    async with stoa.client() as client:
        answer = await client.post("/v1/completions", json=LONG | {"prompt": ["one", "long"], "stream": stream})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert answer.json()["error"]["message"].startswith("prompt[1]: ")
    await eventually_idle(stoa.engine, "talker", seconds=30)
    await stoa.engine.close()


async def test_r7_a_timeout_of_one_prompt_ends_the_stream_and_cancels_all(stoa: RunningServer):
    body = LONG | {"prompt": ["one", "silence"], "timeout": 1, "stream": True}
    async with stoa.client() as client:
        answer = await client.post("/v1/completions", json=body)
    lines = [line for line in answer.text.split("\n\n") if line]
    assert '"code":"timeout"' in lines[-1]
    assert len(lines) > 2
    assert not any("error" in line or "DONE" in line for line in lines[:-1])
    await eventually_idle(stoa.engine, "talker", seconds=30)
    await stoa.engine.close()


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": ["a", 1]}, "prompt"),
        ({"prompt": [[1], 2]}, "prompt"),
        ({"prompt": ["a"] * 65}, "prompt"),
        ({"prompt": [[]]}, "prompt[0]"),
        ({"prompt": [-1]}, "prompt[0]"),
        ({"prompt": [True]}, "prompt[0]"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"best_of": 2}, "best_of"),
        ({"suffix": "end"}, "suffix"),
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 9}, "n"),
        ({"echo": 1}, "echo"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"chat_template": "{{ 1 }}"}, "chat_template"),
    ],
    ids=str,
)
def test_i4_an_error_names_the_field_that_is_not_valid(stoa: RunningServer, wrong: dict[str, object], param: str):
    answer = stoa.post("/v1/completions", {"model": "talker", "prompt": "speak"} | wrong)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_max_tokens_0_needs_echo(client: openai.OpenAI):
    with pytest.raises(openai.BadRequestError, match="`max_tokens` 0 needs `echo`"):
        client.completions.create(model="talker", prompt="speak", max_tokens=0)


@pytest.mark.parametrize("stream", [False, True])
def test_fields_without_effect_are_named_in_a_header(stoa: RunningServer, stream: bool):
    body = {"model": "talker", "prompt": "speak", "max_tokens": 1, "stream": stream}
    assert "warnings" not in stoa.post("/v1/completions", body).headers
    answer = stoa.post("/v1/completions", body | {"user": "u", "metadata": {}, "cache_prompt": None})
    assert (answer.status_code, answer.headers["warnings"]) == (200, "Ignored fields: user, metadata")
    refused = stoa.post("/v1/completions", body | {"guided_jsonn": {}})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "guided_jsonn")


def test_neutral_values_are_accepted(client: openai.OpenAI):
    answer = client.completions.create(
        model="talker",
        prompt="speak",
        best_of=1,
        suffix="",
        user="u",
        max_tokens=1,
        logit_bias={},
        extra_body={"skip_special_tokens": True, "max_tokens": None},
    )

    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16
