"""Limits and repeated requests, as OpenAI's own client meets them."""

import openai
import pytest

from tests.inference.usage.conftest import Limited


def client(limited: Limited, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{limited.urls[0]}/v1", api_key=limited.keys[key], max_retries=0, timeout=60)


def test_over_a_limit_the_client_raises_its_own_error(limited: Limited):
    with client(limited, "tokens") as ours:
        ours.completions.create(model="talker", prompt="speak", max_tokens=60)
        with pytest.raises(openai.RateLimitError) as caught:
            ours.completions.create(model="talker", prompt="speak", max_tokens=60)
    assert (caught.value.code, caught.value.type) == ("rate_limit_exceeded", "rate_limit_error")
    assert 0 < int(caught.value.response.headers["retry-after"]) <= 60


def test_a_repeated_request_is_answered_by_the_same_completion(limited: Limited):
    with client(limited, "plain") as ours:
        headers = {"Idempotency-Key": "once"}
        messages = [{"role": "user", "content": "x"}]
        told = [
            ours.chat.completions.create(model="talker", messages=messages, max_tokens=2, extra_headers=headers)  # type: ignore[arg-type]
            for _ in range(2)
        ]
    assert told[0] == told[1]
