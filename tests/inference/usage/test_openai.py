"""Rate limits and idempotent requests with OpenAI's official client."""

import openai
import pytest

from tests.inference.usage.conftest import LimitedServers


def client(limited: LimitedServers, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{limited.urls[0]}/v1", api_key=limited.keys[key], max_retries=0, timeout=60)


def test_a_rate_limit_raises_the_clients_rate_limit_error(limited: LimitedServers):
    with client(limited, "tokens") as openai_client:
        openai_client.completions.create(model="talker", prompt="speak", max_tokens=60)
        with pytest.raises(openai.RateLimitError) as caught:
            openai_client.completions.create(model="talker", prompt="speak", max_tokens=60)
    assert (caught.value.code, caught.value.type) == ("rate_limit_exceeded", "rate_limit_error")
    assert 0 < int(caught.value.response.headers["retry-after"]) <= 60


def test_a_repeated_idempotency_key_returns_the_same_completion(limited: LimitedServers):
    with client(limited, "plain") as openai_client:
        headers = {"Idempotency-Key": "once"}
        messages = [{"role": "user", "content": "x"}]
        completions = [
            openai_client.chat.completions.create(
                model="talker", messages=messages, max_tokens=2, extra_headers=headers
            )  # type: ignore[arg-type]
            for _ in range(2)
        ]
    assert completions[0] == completions[1]
