"""Limits of keys, users and addresses, counted over several web processes."""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack

import httpx2
import pytest
from websockets.asyncio.client import connect

from shared.api.limits.rate_limits import REFUSAL_SECONDS
from tests.inference.engine.processes import eventually_idle
from tests.inference.usage.conftest import LimitedServers
from tests.inference.websocket_client import receive_message, receive_until, receive_until_closed, send_messages

pytestmark = pytest.mark.no_database

BODY = {"model": "talker", "prompt": "speak"}
LONG = BODY | {"max_tokens": 3000, "stream": True}  # the fake model takes 10 ms per token
HEADERS = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-reset-after")


def limit_and_remaining(answer: httpx2.Response) -> tuple[int, int]:
    return int(answer.headers["x-ratelimit-limit"]), int(answer.headers["x-ratelimit-remaining"])


async def test_r2_three_processes_with_60_concurrent_requests_each_admit_exactly_50(limited: LimitedServers):
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(limited.client("requests", index)) for index in range(3)]
        answers = await asyncio.gather(*(client.get("/models") for client in clients for _ in range(60)))

    assert Counter(answer.status_code for answer in answers) == {200: 50, 429: 130}
    refused = next(answer for answer in answers if answer.status_code == 429)
    error = refused.json()["error"]
    assert error["code"] == "RATE_LIMIT_EXCEEDED"
    assert str(error["retry_after"]) == refused.headers["retry-after"] == refused.headers["x-ratelimit-reset-after"]
    assert 0 < error["retry_after"] <= 60
    assert abs(int(refused.headers["x-ratelimit-reset"]) - time.time() - error["retry_after"]) < 30
    assert limit_and_remaining(refused) == (50, 0)
    await asyncio.sleep(REFUSAL_SECONDS)  # in which the servers would repeat them to the next test


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/models", None, 200),
        ("/usage", None, 200),
        ("/nowhere", None, 404),
        ("/v1/models/nobody", None, 404),
        ("/inference", BODY | {"max_tokens": 1}, 200),
        ("/inference", BODY | {"temperature": 9}, 400),
        ("/inference", BODY | {"max_tokens": 1, "stream": True}, 200),
        ("/v1/chat/completions", {}, 400),
        ("/models/talker/load", {}, 403),
    ],
)
def test_every_response_has_rate_limit_headers(limited: LimitedServers, path: str, body: object, status: int):
    answer = limited.get(path, "requests") if body is None else limited.post(path, "requests", body)

    assert answer.status_code == status, answer.text
    assert limit_and_remaining(answer) == (50, 49)
    assert all(name in answer.headers for name in HEADERS)
    assert "retry-after" not in answer.headers


def test_a_rate_limit_under_v1_has_openais_error_form(limited: LimitedServers):
    answer = limited.get("/v1/models", "none")

    assert answer.status_code == 429
    assert answer.json()["error"]["type"] == "rate_limit_error"
    assert int(answer.headers["retry-after"]) >= 1


def test_r1_requests_without_a_valid_key_count_for_their_address(limited: LimitedServers):
    fake_credentials = [
        {},
        {"X-API-Key": "stoa_a_b"},
        {"Authorization": "Bearer x.y.z"},
        {"X-Forwarded-For": "203.0.113.9"},
    ]
    statuses = [
        httpx2.get(f"{limited.urls[number % 3]}/models", headers=fake_credentials[number % 4]).status_code
        for number in range(24)
    ]
    assert statuses == [401] * 20 + [429] * 4
    assert limited.get("/models", "plain").status_code == 200
    for path in ("/health", "/livez", "/readyz"):
        answer = httpx2.get(limited.urls[0] + path)
        assert (answer.status_code, "x-ratelimit-limit" in answer.headers) == (200, False)


async def test_failed_websocket_sign_ins_count_for_their_address(limited: LimitedServers):
    sockets = [url.replace("http", "ws", 1) + "/ws" for url in limited.urls]
    await asyncio.sleep(REFUSAL_SECONDS)  # in which the servers repeat the refusals of the test before
    for number in range(25):  # successful sign-ins are not counted
        async with connect(sockets[number % 3]) as socket:
            await send_messages(socket, {"type": "auth", "token": limited.keys["plain"]})
            assert (await receive_message(socket))["type"] == "auth"
    async with connect(sockets[0]) as signed_in:
        await send_messages(signed_in, {"type": "auth", "token": limited.keys["plain"]})
        assert (await receive_message(signed_in))["type"] == "auth"
        for number in range(20):
            assert await fail_to_sign_in(sockets[number % 3], number) == ("AUTHENTICATION_FAILED", 4401)

        assert await fail_to_sign_in(sockets[0], 0) == ("RATE_LIMIT_EXCEEDED", 1008)
        assert httpx2.get(f"{limited.urls[1]}/models").status_code == 401
        assert limited.get("/models", "plain").status_code == 200
        await send_messages(signed_in, {"type": "auth", "token": limited.keys["plain"]}, {"type": "ping"})
        assert [(await receive_message(signed_in))["type"] for _ in range(2)] == ["auth", "pong"]


async def fail_to_sign_in(url: str, number: int) -> tuple[str, int | None]:
    """Fail to sign in on a new socket, and return the error code and the close code."""
    wrong: list[dict[str, object]] = [{"type": "auth", "token": "stoa_0000_wrong"}, {"type": "ping"}]
    async with connect(url) as socket:
        await send_messages(socket, wrong[number % 2])
        frames, code = await receive_until_closed(socket)
    [error] = frames
    return error["code"], code


def test_pages_have_a_separate_limit(limited: LimitedServers):
    statuses = [httpx2.get(f"{limited.urls[0]}/playground").status_code for _ in range(27)]

    assert statuses == [200] * 25 + [429] * 2
    assert httpx2.get(f"{limited.urls[0]}/models").status_code == 401
    assert httpx2.get(f"{limited.urls[0]}/admin/login/").status_code == 429


def test_a_users_keys_count_together_except_those_with_their_own_limits(limited: LimitedServers):
    assert [limit_and_remaining(limited.get("/models", key)) for key in ("first", "second", "first")] == [
        (400, n) for n in (399, 398, 397)
    ]
    assert [limit_and_remaining(limited.get("/models", "apart")) for _ in range(2)] == [(1000, 999), (1000, 998)]
    assert limit_and_remaining(limited.get("/models", "second")) == (400, 396)


def test_tokens_are_reserved_at_admission_and_used_tokens_count_afterwards(limited: LimitedServers):
    assert limited.post("/inference", "tokens", BODY | {"max_tokens": 50}).status_code == 200  # used 55 tokens
    refused = limited.post("/inference", "tokens", BODY | {"max_tokens": 50}, index=1)

    assert refused.status_code == 429
    message = refused.json()["error"]["message"]
    assert "This key has reached its limit of 100 tokens per minute: 55 used, 52 requested" in message
    assert limit_and_remaining(refused) == (100, 45)
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert limited.post("/inference", "tokens", BODY | {"max_tokens": 40}, index=2).status_code == 200
    assert limited.get("/models", "tokens").status_code == 200


def test_a_request_above_the_token_limit_is_served_while_nothing_else_counts(limited: LimitedServers):
    body = BODY | {"max_tokens": 200}
    assert [limited.post("/inference", "tokens", body).status_code for _ in range(2)] == [200, 429]


def test_all_endpoints_share_the_token_limit(limited: LimitedServers):
    texts = {"model": "embedder", "input": ["x" * 160] * 2}  # estimated as 80 tokens; the fake model counts 1
    assert limited.post("/embeddings", "tokens", texts).status_code == 200
    assert limited.post("/v1/embeddings", "tokens", texts | {"input": ["x" * 200] * 2}).status_code == 429
    chat = {"model": "talker", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 30}
    assert limited.post("/v1/chat/completions", "tokens", chat).status_code == 200
    completion = {"model": "talker", "prompt": ["ab", "cd"], "max_tokens": 33}
    assert limited.post("/v1/completions", "tokens", completion).status_code == 200
    assert limited.post("/inference/stream", "tokens", BODY | {"max_tokens": 10}).status_code == 429


USER_MESSAGE = {"role": "user", "content": "hi"}


def assistant_call(name: str = "light", arguments: str = "{}") -> dict[str, object]:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "tool_calls": [call]}


def tool(name: str = "light", **more: object) -> dict[str, object]:
    return {"type": "function", "function": {"name": name} | more}


@pytest.mark.parametrize(
    "prompt",
    [
        {"tools": [tool(f"{index}{'x' * 60}") for index in range(4)]},
        {"tools": [tool(description="x" * 240)]},
        {"tools": [tool(parameters={"type": "object", "properties": {"x" * 240: {"type": "string"}}})]},
        {"messages": [USER_MESSAGE, *[assistant_call(name="x" * 60)] * 4]},
        {"messages": [USER_MESSAGE, assistant_call(arguments='{"a": "' + "x" * 240 + '"}')]},
        {"messages": [USER_MESSAGE, assistant_call(), {"role": "tool", "content": "", "tool_call_id": "x" * 240}]},
    ],
)
def test_tool_definitions_and_calls_count_as_prompt_tokens(limited: LimitedServers, prompt: dict[str, object]):
    chat = {"model": "talker", "messages": [USER_MESSAGE], "max_tokens": 30}
    assert limited.post("/v1/chat/completions", "tokens", chat).status_code == 200  # used at least 31 tokens
    assert limited.post("/v1/chat/completions", "tokens", chat | prompt | {"max_tokens": 5}).status_code == 429
    assert limited.post("/v1/chat/completions", "tokens", chat).status_code == 200


def test_a_refused_request_uses_no_tokens(limited: LimitedServers):
    for wrong in ({"prompt": "long"}, {"model": "nobody"}, {"prompt": "full"}):
        assert limited.post("/inference", "tokens", BODY | {"max_tokens": 60} | wrong).status_code in (400, 404, 503)
    assert limited.post("/inference", "tokens", BODY | {"max_tokens": 95}).status_code == 200


def test_past_the_users_bound_the_oldest_idempotent_responses_are_dropped_and_nothing_runs_twice(
    limited: LimitedServers,
):
    def ask(number: int, key: str = "plain") -> httpx2.Response:
        headers = limited.headers(key) | {"Idempotency-Key": f"loud {number}"}
        body = BODY | {"prompt": "shout", "max_tokens": 2}  # 64 KiB per token
        return httpx2.post(f"{limited.urls[0]}/inference", json=body, headers=headers, timeout=60)

    assert [ask(0, "other").status_code, *(ask(number).status_code for number in range(3))] == [200] * 4
    done = limited.get("/usage", "plain").json()["total"]["requests"]
    gone = ask(0)
    assert (gone.status_code, "no longer stored" in gone.json()["error"]["message"]) == (400, True)
    for kept in (ask(1), ask(2), ask(0, "other")):
        assert (kept.status_code, kept.headers["idempotent-replayed"]) == (200, "true")
    assert limited.get("/usage", "plain").json()["total"]["requests"] == done


async def test_a_disconnected_stream_returns_its_unused_tokens(limited: LimitedServers):
    async with limited.client("large") as client:
        async with client.stream("POST", "/inference/stream", json=LONG) as answer:
            await anext(answer.aiter_lines())
            assert limited.post("/inference", "large", LONG | {"stream": False}, index=1).status_code == 429
        await retry_until_admitted(client, LONG)
    await eventually_idle(limited.stoa.engine, "talker")
    await limited.stoa.engine.close()


async def test_websocket_and_http_share_token_and_concurrency_limits(limited: LimitedServers):
    inference = {"type": "inference", "id": "a", "model": "talker", "prompt": "speak", "max_tokens": 3000}
    async with connect(limited.urls[1].replace("http", "ws", 1) + "/ws") as socket:
        await send_messages(socket, {"type": "auth", "token": limited.keys["large"]})
        assert (await receive_message(socket))["limits"]["tokens_per_minute"] == 5000
        await send_messages(socket, inference)
        await receive_message(socket)
        refused = limited.post("/inference", "large", BODY | {"max_tokens": 2500})
        assert refused.status_code == 429
        await send_messages(socket, inference | {"id": "b"})
        error = (await receive_until(socket, "error"))[-1]
        assert (error["code"], error["id"], error["details"]["retry_after"] >= 1) == ("RATE_LIMIT_EXCEEDED", "b", True)
        await send_messages(socket, {"type": "cancel", "id": "a"})
        await receive_until(socket, "complete")
        await send_messages(socket, inference | {"id": "c"})
        assert (await receive_message(socket))["type"] == "token"
    await eventually_idle(limited.stoa.engine, "talker")
    await limited.stoa.engine.close()


async def test_r5_three_processes_with_20_concurrent_streams_each_run_exactly_5(limited: LimitedServers):
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(limited.client("places", index)) for index in range(3)]
        sending = [
            client.send(client.build_request("POST", "/inference/stream", json=LONG), stream=True)
            for client in clients
            for _ in range(20)
        ]
        answers = await asyncio.gather(*sending)
        assert Counter(answer.status_code for answer in answers) == {200: 5, 429: 55}
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert b"This key has reached its limit of 5 concurrent requests" in await refused.aread()
        assert (limit_and_remaining(refused), refused.headers["retry-after"]) == ((5, 0), "1")
        for answer in answers:
            await answer.aclose()
        await retry_until_admitted(clients[0], LONG)
    await eventually_idle(limited.stoa.engine, "talker", seconds=20)
    await limited.stoa.engine.close()


async def test_r5_a_user_with_several_keys_is_capped_and_another_user_is_served(limited: LimitedServers):
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(limited.client(key)) for key in ("first", "second")]
        sending = [
            client.send(client.build_request("POST", "/inference/stream", json=LONG), stream=True)
            for client in clients
            for _ in range(10)
        ]
        answers = await asyncio.gather(*sending)
        assert Counter(answer.status_code for answer in answers) == {200: 6, 429: 14}
        other = await stack.enter_async_context(limited.client("other"))
        served = await other.post("/inference", json=BODY | {"max_tokens": 3})
        assert (served.status_code, served.json()["choices"][0]["text"]) == (200, "w0 w1 w2 ")
        for answer in answers:
            await answer.aclose()
    await eventually_idle(limited.stoa.engine, "talker", seconds=20)
    await limited.stoa.engine.close()


async def test_r5_tokenizing_counts_against_concurrency_but_not_tokens(limited: LimitedServers):
    asked: dict[str, dict[str, object]] = {
        "/tokenize": {"model": "talker", "prompt": "long " * 100},
        "/detokenize": {"model": "talker", "tokens": [97] * 500},
    }
    async with limited.client("two") as client:
        running = [
            await client.send(client.build_request("POST", "/inference/stream", json=LONG), stream=True)
            for _ in range(2)
        ]
        assert [(await client.post(path, json=body)).status_code for path, body in asked.items()] == [429, 429]
        for answer in running:
            await answer.aclose()
        for path, body in asked.items():
            await retry_until_admitted(client, body, path)
    for path, body in asked.items():
        assert limited.post(path, "tokens", body).status_code == 200
    assert limited.post("/inference", "tokens", BODY | {"max_tokens": 95}).status_code == 200


def test_concurrency_is_freed_as_soon_as_the_response_is_complete(limited: LimitedServers):
    with httpx2.Client(base_url=limited.urls[0], headers=limited.headers("two"), timeout=30) as client:
        body = BODY | {"max_tokens": 1}
        assert {client.post("/inference", json=body).status_code for _ in range(30)} == {200}
        assert {client.post("/inference/stream", json=body).status_code for _ in range(30)} == {200}


def test_r4_a_full_queue_is_503_with_the_engines_retry_time(limited: LimitedServers):
    for path in ("/inference", "/inference/stream", "/v1/completions"):
        answer = limited.post(path, "plain", BODY | {"prompt": "full"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
    native = limited.post("/inference", "plain", BODY | {"prompt": "full"}).json()["error"]
    assert (native["code"], native["details"]) == ("INFERENCE_FAILED", {"reason": "queue_full"})


async def retry_until_admitted(client: httpx2.AsyncClient, body: object, path: str = "/inference/stream") -> None:
    """Send a request until it is admitted, then disconnect."""
    deadline = time.monotonic() + 30
    while True:
        async with client.stream("POST", path, json=body) as answer:
            if answer.status_code == 200:
                return
            assert answer.status_code == 429
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
