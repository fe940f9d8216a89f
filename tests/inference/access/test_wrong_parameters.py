"""Row I4 on every surface: an error names the parameter that is out of bounds, and no request reaches a model."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.inference.running_server import RunningServer
from tests.inference.websocket_client import authenticated_websocket, receive_message, send_messages

pytestmark = [pytest.mark.timeout(300), pytest.mark.no_database]

HUGE = 10**30
NOT_NUMBERS: list[Any] = [
    True, False, "", "3", "-1", " 1", "0x10", "1e3", "NaN", "\u0661", "\u221e", "x" * 1000, "-",
    [], [1], [None], [[]], {}, {"a": 1},
]  # fmt: skip
NOT_INTEGERS = [*NOT_NUMBERS, 1.5, HUGE, -HUGE]
WRONG: dict[str, list[Any]] = {
    "max_tokens": [*NOT_INTEGERS, 0, -1, 2**31],
    "temperature": [*NOT_NUMBERS, -0.1, 2.1, HUGE],
    "top_p": [*NOT_NUMBERS, -0.1, 1.1, HUGE],
    "top_k": [*NOT_INTEGERS, -2, 1001],
    "min_p": [*NOT_NUMBERS, -0.1, 1.1],
    "repeat_penalty": [*NOT_NUMBERS, 0, -1, 2.1],
    "presence_penalty": [*NOT_NUMBERS, -2.1, 2.1],
    "frequency_penalty": [*NOT_NUMBERS, -2.1, 2.1],
    "seed": [*NOT_INTEGERS, 2**63, -(2**63) - 1],
    "n": [*NOT_INTEGERS, 0, -1, 9],
    "min_tokens": [*NOT_INTEGERS, -1],
    "ignore_eos": [0, 1, "true", [], {}],
    "timeout": [*NOT_NUMBERS, 0, -1, 601, HUGE],
    "priority": [*NOT_INTEGERS, -11, 11],
    "stop": [1, True, {}, [1], ["x"] * 17, ["x" * 257], [""], [["x"]]],
    "logit_bias": [1, "7", [7], {"x": 1}, {"-1": 1}, {"7": 101}, {"7": -101}, {"7": "1"}, {"7": True},
                   {str(token): 1 for token in range(1025)}],
    "response_format": [1, "json", [], {"type": 1}, {"type": "xml"}],
    "regex": [1, True, [], {}],
    "grammar": [1, True, [], {}],
    "model": [1, True, None, [], {}],
}  # fmt: skip
CASES = [(field, value) for field, values in WRONG.items() for value in values]
MESSAGES_PER_CONNECTION = 100  # more would exceed the rate limit of a connection
PROMPT: dict[str, Any] = {"model": "talker", "prompt": "die"}  # the fake model would end its process
CHAT: dict[str, Any] = {"model": "talker", "messages": [{"role": "user", "content": "die"}]}
DOORS: dict[str, dict[str, Any]] = {
    "/inference": PROMPT,
    "/inference/stream": PROMPT,
    "/v1/completions": PROMPT,
    "/v1/chat/completions": CHAT,
    "/batch": {"model": "talker", "requests": [{"id": "1", "prompt": "die"}]},
}
EMBEDDINGS: list[dict[str, Any]] = [
    {"input": value} for value in (None, True, 1, {}, [], [None], ["x"] * 2049, [[["x"]]], [True])
] + [{"encoding_format": value} for value in (1, True, "", "base32", [])]


@pytest.fixture(scope="module", autouse=True)
def no_request_reaches_a_model(stoa: RunningServer) -> Iterator[None]:
    before = asyncio.run(stoa.pid("talker"))
    yield
    assert asyncio.run(stoa.pid("talker")) == before
    assert stoa.post("/inference", PROMPT | {"prompt": "speak"}).status_code == 200


@pytest.mark.parametrize("path", DOORS)
async def test_i4_an_error_names_an_invalid_parameter(stoa: RunningServer, path: str):
    async with stoa.client() as client:
        for field, value in CASES:
            answer = await client.post(path, json=DOORS[path] | {field: value})
            assert (answer.status_code, answer.json()["error"]["code"].upper()) == (400, "INVALID_REQUEST"), (
                field,
                value,
            )
            assert field in answer.json()["error"]["message"], (field, value)


@pytest.mark.parametrize("path", ["/embeddings", "/v1/embeddings"])
async def test_i4_an_error_names_an_invalid_embedding_input(stoa: RunningServer, path: str):
    async with stoa.client() as client:
        for wrong in EMBEDDINGS:
            answer = await client.post(path, json={"model": "embedder", "input": "x"} | wrong)
            assert answer.status_code == 400, wrong
            assert next(iter(wrong)) in answer.json()["error"]["message"], wrong


@pytest.mark.parametrize("first", range(0, len(CASES), MESSAGES_PER_CONNECTION))
async def test_i4_a_websocket_error_names_an_invalid_parameter(stoa: RunningServer, first: int):
    async with authenticated_websocket(stoa) as client:
        for field, value in CASES[first : first + MESSAGES_PER_CONNECTION]:
            await send_messages(client, {"type": "inference", "id": "a"} | PROMPT | {field: value})
            told = await receive_message(client)
            assert (told["type"], told["code"]) == ("error", "INVALID_REQUEST"), (field, value)
            assert field in told["message"], (field, value)
