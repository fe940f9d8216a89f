"""The `websockets` library against the built-in models: the same texts as over HTTP."""

import asyncio
import json
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.sync.client import connect as connect_sync

from tests.running_stoa import RunningStoa

MODEL = "stoa-describer"
PROMPTS = {
    "prompt": "The lamp",
    "messages": [{"role": "user", "content": "Describe a lamp: brass, warm light, adjustable arm."}],
}
PARAMETERS: dict[str, Any] = {"model": MODEL, "max_tokens": 24, "temperature": 0.7, "seed": 7}


def address(stoa: RunningStoa) -> str:
    return stoa.inference_url.replace("http", "ws", 1) + "/ws"


def auth(stoa: RunningStoa) -> str:
    return json.dumps({"type": "auth", "token": stoa.api_key})


def over_http(stoa: RunningStoa, field: str) -> dict[str, Any]:
    """Return the text and the token count of the same request over HTTP, unstreamed."""
    body = PARAMETERS | {field: PROMPTS[field]}
    if field == "messages":  # the native parameters' defaults, which OpenAI's route does not have
        body |= {"top_p": 0.9, "top_k": 40, "repeat_penalty": 1.1}
    path = "/inference" if field == "prompt" else "/v1/chat/completions"
    response = httpx2.post(stoa.inference_url + path, json=body, headers=stoa.headers(), timeout=100).json()
    choice = response["choices"][0]
    text = choice["text"] if field == "prompt" else choice["message"]["content"]
    return {"text": text, "completion_tokens": response["usage"]["completion_tokens"]}


@pytest.mark.parametrize("field", list(PROMPTS))
def test_streamed_unstreamed_and_http_texts_are_equal(stoa: RunningStoa, field: str):
    request = {"type": "inference", **PARAMETERS, field: PROMPTS[field]}
    with connect_sync(address(stoa), open_timeout=60) as socket:
        socket.send(auth(stoa))
        assert json.loads(socket.recv(60))["status"] == "ok"
        socket.send(json.dumps(request | {"id": "streamed"}))
        frames = [json.loads(socket.recv(60))]
        while frames[-1]["type"] == "token":
            frames.append(json.loads(socket.recv(60)))
        socket.send(json.dumps(request | {"id": "whole", "stream": False}))
        whole = json.loads(socket.recv(60))

    assert [frame["index"] for frame in frames[:-1]] == list(range(len(frames) - 1))
    text = "".join(frame["token"] for frame in frames[:-1])
    assert text.strip()
    assert whole["text"] == text
    over_websocket = {"text": text, "completion_tokens": frames[-1]["usage"]["completion_tokens"]}
    assert over_websocket == over_http(stoa, field)


async def test_concurrent_requests_on_one_websocket_return_the_same_texts_as_sequential_ones(stoa: RunningStoa):
    requests = [PARAMETERS | {"type": "inference", "id": str(n), "prompt": "The lamp", "seed": n} for n in range(16)]
    async with connect(address(stoa), open_timeout=60) as socket:
        await socket.send(auth(stoa))
        await socket.recv()

        async def texts(count: int) -> dict[str, str]:
            texts_by_id, ended = {}, 0
            while ended < count:
                async with asyncio.timeout(60):
                    frame = json.loads(await socket.recv())
                assert frame["type"] in ("token", "complete"), frame
                ended += frame["type"] == "complete"
                texts_by_id[frame["id"]] = texts_by_id.get(frame["id"], "") + frame.get("token", "")
            return texts_by_id

        alone: dict[str, str] = {}
        for request in requests:
            await socket.send(json.dumps(request))
            alone |= await texts(1)
        for request in requests:
            await socket.send(json.dumps(request))
        together = await texts(16)

    assert together == alone
    assert len(set(alone.values())) > 1
