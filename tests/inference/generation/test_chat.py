"""POST /v1/chat/completions through the official client, strict."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from inference.protocol.fields import SYSTEM_FINGERPRINT
from tests.inference.running_server import RunningServer

HELLO: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def client(stoa: RunningServer) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{stoa.url}/v1",
        api_key=stoa.keys["STAFF"],
        max_retries=0,
        _strict_response_validation=True,
    )


def test_a_chat_is_completed(client: openai.OpenAI):
    answer = client.chat.completions.create(model="talker", messages=HELLO, max_tokens=3)

    assert answer.id.startswith("chatcmpl-")
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.content == "w0 w1 w2 "
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


def test_a_chat_is_streamed_with_its_usage(client: openai.OpenAI):
    chunks = list(
        client.chat.completions.create(
            model="talker", messages=HELLO, max_tokens=3, stream=True, stream_options={"include_usage": True}
        )
    )

    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].delta.content for chunk in chunks[1:4]] == ["w0 ", "w1 ", "w2 "]
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 3
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1


def test_several_choices_are_completed_with_the_count_of_cached_tokens(client: openai.OpenAI):
    answer = client.chat.completions.create(model="talker", messages=HELLO, max_tokens=2, n=3)
    assert [(choice.index, choice.message.content) for choice in answer.choices] == [
        (index, "w0 w1 ") for index in range(3)
    ]
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 0
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.reasoning_tokens == 0
    assert answer.system_fingerprint == SYSTEM_FINGERPRINT

    chunks = list(client.chat.completions.create(model="talker", messages=HELLO, max_tokens=2, n=2, stream=True))
    said = [(chunk.choices[0].index, chunk.choices[0].delta.content) for chunk in chunks]
    assert said[:2] == [(0, ""), (1, "")]
    assert [text for index, text in said if index == 1] == ["", "w0 ", "w1 ", None]
    assert [chunk.choices[0].finish_reason for chunk in chunks].count("length") == 2


def test_r7_a_timeout_raises_the_clients_own_error(client: openai.OpenAI):
    asked = {"model": "talker", "messages": HELLO, "max_tokens": 3000, "extra_body": {"timeout": 1}}
    with pytest.raises(openai.InternalServerError) as late:
        client.chat.completions.create(**asked)
    assert (late.value.status_code, late.value.code) == (503, "timeout")
    assert late.value.response.headers["x-should-retry"] == "false"
    with pytest.raises(openai.APIError, match="Too late"):
        list(client.chat.completions.create(**asked, stream=True))


def test_models_are_listed_and_one_is_read(client: openai.OpenAI):
    models = {model.id: model for model in client.models.list()}

    assert {"talker", "embedder", "idle"} <= models.keys()
    assert client.models.retrieve("talker") == models["talker"]


def test_errors_raise_the_clients_own_classes(stoa: RunningServer, client: openai.OpenAI):
    stranger = openai.OpenAI(base_url=f"{stoa.url}/v1", api_key="stoa_wrong_key", max_retries=0)
    with pytest.raises(openai.AuthenticationError, match="key") as refused:
        stranger.chat.completions.create(model="talker", messages=HELLO)
    assert refused.value.code == "invalid_api_key"

    with pytest.raises(openai.NotFoundError, match="talker") as missing:
        client.chat.completions.create(model="nobody", messages=HELLO)
    assert missing.value.code == "model_not_found"
    assert missing.value.param == "model"

    with pytest.raises(openai.BadRequestError, match="temperature") as wrong:
        client.chat.completions.create(model="talker", messages=HELLO, temperature=3)
    assert wrong.value.param == "temperature"

    with pytest.raises(openai.NotFoundError, match="nobody"):
        client.models.retrieve("nobody")


def test_a_customer_is_rejected(stoa: RunningServer):
    customer = openai.OpenAI(base_url=f"{stoa.url}/v1", api_key=stoa.keys["CUSTOMER"], max_retries=0)

    with pytest.raises(openai.PermissionDeniedError, match="run_inference"):
        customer.chat.completions.create(model="talker", messages=HELLO)


def test_the_ends_of_the_stream_equal_openais_byte_by_byte(stoa: RunningServer):
    answer = stoa.post("/v1/chat/completions", {"model": "talker", "messages": HELLO, "max_tokens": 1, "stream": True})

    assert answer.headers["content-type"] == "text/event-stream"
    lines = [line for line in answer.text.split("\n\n") if line]
    assert json.loads(lines[0][6:])["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert lines[-1] == "data: [DONE]"
    assert all(line.startswith("data: {") for line in lines[:-1])


def test_a_chat_whose_model_is_unloaded_is_an_error_and_never_a_partial_message(stoa: RunningServer):
    assert stoa.post("/models/idle/load", {}).status_code == 200
    body = {"model": "idle", "messages": HELLO, "max_tokens": 2000}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(stoa.post, "/v1/chat/completions", body)
        time.sleep(1)  # of the twenty that it would take
        assert stoa.post("/models/idle/unload", {"force": True}).status_code == 200
    assert answer.result().status_code == 503
    assert "unloaded" in answer.result().json()["error"]["message"]
