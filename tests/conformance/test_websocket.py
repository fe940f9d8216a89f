"""The WebSocket with the `websockets` library, over the models that come with Stoa: the same text as over HTTP."""

import asyncio
import json
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.sync.client import connect as connect_sync

from tests.running_stoa import RunningStoa

MODEL = "stoa-describer"
WORDS = {
    "prompt": "The lamp",
    "messages": [{"role": "user", "content": "Describe a lamp: brass, warm light, adjustable arm."}],
}
PARAMETERS: dict[str, Any] = {"model": MODEL, "max_tokens": 24, "temperature": 0.7, "seed": 7}


def address(stoa: RunningStoa) -> str:
    return stoa.inference_url.replace("http", "ws", 1) + "/ws"


def auth(stoa: RunningStoa) -> str:
    return json.dumps({"type": "auth", "token": stoa.api_key})


def over_http(stoa: RunningStoa, words: str) -> dict[str, Any]:
    """Text and usage of the same request, whole."""
    body = PARAMETERS | {words: WORDS[words]}
    if words == "messages":  # the native parameters' defaults, which OpenAI's route does not have
        body |= {"top_p": 0.9, "top_k": 40, "repeat_penalty": 1.1}
    path = "/inference" if words == "prompt" else "/v1/chat/completions"
    answer = httpx2.post(stoa.inference_url + path, json=body, headers=stoa.headers(), timeout=100).json()
    choice = answer["choices"][0]
    text = choice["text"] if words == "prompt" else choice["message"]["content"]
    return {"text": text, "completion_tokens": answer["usage"]["completion_tokens"]}


@pytest.mark.parametrize("words", list(WORDS))
def test_streamed_unstreamed_and_over_http_are_one_text(stoa: RunningStoa, words: str):
    asked = {"type": "inference", **PARAMETERS, words: WORDS[words]}
    with connect_sync(address(stoa), open_timeout=60) as socket:
        socket.send(auth(stoa))
        assert json.loads(socket.recv(60))["status"] == "ok"
        socket.send(json.dumps(asked | {"id": "streamed"}))
        frames = [json.loads(socket.recv(60))]
        while frames[-1]["type"] == "token":
            frames.append(json.loads(socket.recv(60)))
        socket.send(json.dumps(asked | {"id": "whole", "stream": False}))
        whole = json.loads(socket.recv(60))

    assert [frame["index"] for frame in frames[:-1]] == list(range(len(frames) - 1))
    text = "".join(frame["token"] for frame in frames[:-1])
    assert text.strip()
    assert whole["text"] == text
    told = {"text": text, "completion_tokens": frames[-1]["usage"]["completion_tokens"]}
    assert told == over_http(stoa, words)


async def test_many_at_once_over_one_socket_are_what_they_are_alone(stoa: RunningStoa):
    asked = [PARAMETERS | {"type": "inference", "id": str(n), "prompt": "The lamp", "seed": n} for n in range(16)]
    async with connect(address(stoa), open_timeout=60) as socket:
        await socket.send(auth(stoa))
        await socket.recv()

        async def texts(count: int) -> dict[str, str]:
            said, ended = {}, 0
            while ended < count:
                async with asyncio.timeout(60):
                    frame = json.loads(await socket.recv())
                assert frame["type"] in ("token", "complete"), frame
                ended += frame["type"] == "complete"
                said[frame["id"]] = said.get(frame["id"], "") + frame.get("token", "")
            return said

        alone: dict[str, str] = {}
        for one in asked:
            await socket.send(json.dumps(one))
            alone |= await texts(1)
        for one in asked:
            await socket.send(json.dumps(one))
        together = await texts(16)

    assert together == alone
    assert len(set(alone.values())) > 1
