"""How much a key, a user and an address may do, over several web processes."""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack

import httpx2
import pytest
from websockets.asyncio.client import connect

from tests.inference.engine.processes import eventually_idle
from tests.inference.sockets import hear, hear_the_rest, hear_until, say
from tests.inference.usage.conftest import Limited

BODY = {"model": "talker", "prompt": "speak"}
LONG = BODY | {"max_tokens": 3000, "stream": True}  # the fake takes 10 ms a token
HEADERS = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-reset-after")


def left(answer: httpx2.Response) -> tuple[int, int]:
    return int(answer.headers["x-ratelimit-limit"]), int(answer.headers["x-ratelimit-remaining"])


async def test_r2_of_three_processes_with_60_requests_each_at_once_exactly_50_are_let_through(limited: Limited):
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(limited.client("requests", place)) for place in range(3)]
        answers = await asyncio.gather(*(client.get("/models") for client in clients for _ in range(60)))

    assert Counter(answer.status_code for answer in answers) == {200: 50, 429: 130}
    refused = next(answer for answer in answers if answer.status_code == 429)
    error = refused.json()["error"]
    assert error["code"] == "RATE_LIMIT_EXCEEDED"
    assert str(error["retry_after"]) == refused.headers["retry-after"] == refused.headers["x-ratelimit-reset-after"]
    assert 0 < error["retry_after"] <= 60
    assert abs(int(refused.headers["x-ratelimit-reset"]) - time.time() - error["retry_after"]) < 30
    assert left(refused) == (50, 0)


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
def test_every_answer_says_what_is_left(limited: Limited, path: str, body: object, status: int):
    answer = limited.get(path, "requests") if body is None else limited.post(path, "requests", body)

    assert answer.status_code == status, answer.text
    assert left(answer) == (50, 49)
    assert all(name in answer.headers for name in HEADERS)
    assert "retry-after" not in answer.headers


def test_an_error_under_v1_has_openais_form_and_its_clients_wait_as_it_says(limited: Limited):
    answer = limited.get("/v1/models", "none")

    assert answer.status_code == 429
    assert answer.json()["error"]["type"] == "rate_limit_error"
    assert int(answer.headers["retry-after"]) >= 1


def test_r1_an_address_without_a_key_has_few_whatever_it_makes_up(limited: Limited):
    made_up = [{}, {"X-API-Key": "stoa_a_b"}, {"Authorization": "Bearer x.y.z"}, {"X-Forwarded-For": "203.0.113.9"}]
    statuses = [
        httpx2.get(f"{limited.urls[number % 3]}/models", headers=made_up[number % 4]).status_code
        for number in range(24)
    ]
    assert statuses == [401] * 20 + [429] * 4
    assert limited.get("/models", "plain").status_code == 200
    for path in ("/health", "/livez", "/readyz"):
        answer = httpx2.get(limited.urls[0] + path)
        assert (answer.status_code, "x-ratelimit-limit" in answer.headers) == (200, False)


async def test_sign_ins_that_fail_on_sockets_count_for_their_address(limited: Limited):
    sockets = [url.replace("http", "ws", 1) + "/ws" for url in limited.urls]
    for number in range(25):  # those that succeed do not
        async with connect(sockets[number % 3]) as socket:
            await say(socket, {"type": "auth", "token": limited.keys["plain"]})
            assert (await hear(socket))["type"] == "auth"
    async with connect(sockets[0]) as signed_in:
        await say(signed_in, {"type": "auth", "token": limited.keys["plain"]})
        assert (await hear(signed_in))["type"] == "auth"
        for number in range(20):
            assert await _turned_away(sockets[number % 3], number) == ("AUTHENTICATION_FAILED", 4401)

        assert await _turned_away(sockets[0], 0) == ("RATE_LIMIT_EXCEEDED", 1008)
        assert httpx2.get(f"{limited.urls[1]}/models").status_code == 401
        assert limited.get("/models", "plain").status_code == 200
        await say(signed_in, {"type": "auth", "token": limited.keys["plain"]}, {"type": "ping"})
        assert [(await hear(signed_in))["type"] for _ in range(2)] == ["auth", "pong"]


async def _turned_away(url: str, number: int) -> tuple[str, int | None]:
    """The error of a socket without a good credential, and how it is closed."""
    wrong: list[dict[str, object]] = [{"type": "auth", "token": "stoa_0000_wrong"}, {"type": "ping"}]
    async with connect(url) as socket:
        await say(socket, wrong[number % 2])
        frames, code = await hear_the_rest(socket)
    [error] = frames
    return error["code"], code


def test_pages_count_apart_from_the_api(limited: Limited):
    statuses = [httpx2.get(f"{limited.urls[0]}/playground").status_code for _ in range(27)]

    assert statuses == [200] * 25 + [429] * 2
    assert httpx2.get(f"{limited.urls[0]}/models").status_code == 401
    assert httpx2.get(f"{limited.urls[0]}/admin/login/").status_code == 429


def test_the_keys_of_a_user_count_together_and_one_with_limits_of_its_own_apart(limited: Limited):
    assert [left(limited.get("/models", key)) for key in ("first", "second", "first")] == [
        (400, n) for n in (399, 398, 397)
    ]
    assert [left(limited.get("/models", "apart")) for _ in range(2)] == [(1000, 999), (1000, 998)]
    assert left(limited.get("/models", "second")) == (400, 396)


def test_what_a_request_may_take_is_reserved_and_what_it_took_counts(limited: Limited):
    assert limited.post("/inference", "tokens", BODY | {"max_tokens": 50}).status_code == 200  # took 55
    refused = limited.post("/inference", "tokens", BODY | {"max_tokens": 50}, place=1)

    assert refused.status_code == 429
    assert "At most 100 tokens a minute are for this key: 55 count now" in refused.json()["error"]["message"]
    assert left(refused) == (100, 45)
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert limited.post("/inference", "tokens", BODY | {"max_tokens": 40}, place=2).status_code == 200
    assert limited.get("/models", "tokens").status_code == 200


def test_what_is_more_than_the_whole_limit_comes_when_nothing_else_counts(limited: Limited):
    body = BODY | {"max_tokens": 200}
    assert [limited.post("/inference", "tokens", body).status_code for _ in range(2)] == [200, 429]


def test_all_surfaces_take_from_the_same_tokens(limited: Limited):
    texts = {"model": "embedder", "input": ["x" * 160] * 2}  # about 80 tokens; the fake counts 1
    assert limited.post("/embeddings", "tokens", texts).status_code == 200
    assert limited.post("/v1/embeddings", "tokens", texts | {"input": ["x" * 200] * 2}).status_code == 429
    chat = {"model": "talker", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 30}
    assert limited.post("/v1/chat/completions", "tokens", chat).status_code == 200
    completion = {"model": "talker", "prompt": ["ab", "cd"], "max_tokens": 33}
    assert limited.post("/v1/completions", "tokens", completion).status_code == 200
    assert limited.post("/inference/stream", "tokens", BODY | {"max_tokens": 10}).status_code == 429


SAID = {"role": "user", "content": "hi"}


def calling(name: str = "light", arguments: str = "{}") -> dict[str, object]:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "tool_calls": [call]}


def offering(name: str = "light", **more: object) -> dict[str, object]:
    return {"type": "function", "function": {"name": name} | more}


@pytest.mark.parametrize(
    "prompt",
    [
        {"tools": [offering(f"{place}{'x' * 60}") for place in range(4)]},
        {"tools": [offering(description="x" * 240)]},
        {"tools": [offering(parameters={"type": "object", "properties": {"x" * 240: {"type": "string"}}})]},
        {"messages": [SAID, *[calling(name="x" * 60)] * 4]},
        {"messages": [SAID, calling(arguments='{"a": "' + "x" * 240 + '"}')]},
        {"messages": [SAID, calling(), {"role": "tool", "content": "", "tool_call_id": "x" * 240}]},
    ],
)
def test_all_that_a_template_puts_into_the_prompt_is_reserved(limited: Limited, prompt: dict[str, object]):
    chat = {"model": "talker", "messages": [SAID], "max_tokens": 30}
    assert limited.post("/v1/chat/completions", "tokens", chat).status_code == 200  # took 31 and more
    assert limited.post("/v1/chat/completions", "tokens", chat | prompt | {"max_tokens": 5}).status_code == 429
    assert limited.post("/v1/chat/completions", "tokens", chat).status_code == 200


def test_a_refused_request_takes_nothing(limited: Limited):
    for wrong in ({"prompt": "long"}, {"model": "nobody"}, {"prompt": "full"}):
        assert limited.post("/inference", "tokens", BODY | {"max_tokens": 60} | wrong).status_code in (400, 404, 503)
    assert limited.post("/inference", "tokens", BODY | {"max_tokens": 95}).status_code == 200


def test_past_a_users_bound_the_oldest_kept_answers_go_and_nothing_is_done_twice(limited: Limited):
    def loud(number: int, key: str = "plain") -> httpx2.Response:
        headers = limited.headers(key) | {"Idempotency-Key": f"loud {number}"}
        body = BODY | {"prompt": "shout", "max_tokens": 2}  # 64 KiB a token
        return httpx2.post(f"{limited.urls[0]}/inference", json=body, headers=headers, timeout=60)

    assert [loud(0, "other").status_code, *(loud(number).status_code for number in range(3))] == [200] * 4
    done = limited.get("/usage", "plain").json()["total"]["requests"]
    gone = loud(0)
    assert (gone.status_code, "no longer kept" in gone.json()["error"]["message"]) == (400, True)
    for kept in (loud(1), loud(2), loud(0, "other")):
        assert (kept.status_code, kept.headers["idempotent-replayed"]) == (200, "true")
    assert limited.get("/usage", "plain").json()["total"]["requests"] == done


async def test_a_stream_that_is_left_gives_back_what_it_did_not_take(limited: Limited):
    async with limited.client("large") as client:
        async with client.stream("POST", "/inference/stream", json=LONG) as answer:
            await anext(answer.aiter_lines())
            assert limited.post("/inference", "large", LONG | {"stream": False}, place=1).status_code == 429
        await until_let_in(client, LONG)
    await eventually_idle(limited.stoa.engine, "talker")
    await limited.stoa.engine.close()


async def test_a_socket_and_http_share_tokens_and_places(limited: Limited):
    inference = {"type": "inference", "id": "a", "model": "talker", "prompt": "speak", "max_tokens": 3000}
    async with connect(limited.urls[1].replace("http", "ws", 1) + "/ws") as socket:
        await say(socket, {"type": "auth", "token": limited.keys["large"]})
        assert (await hear(socket))["limits"]["tokens_per_minute"] == 5000
        await say(socket, inference)
        await hear(socket)
        refused = limited.post("/inference", "large", BODY | {"max_tokens": 2500})
        assert refused.status_code == 429
        await say(socket, inference | {"id": "b"})
        error = (await hear_until(socket, "error"))[-1]
        assert (error["code"], error["id"], error["details"]["retry_after"] >= 1) == ("RATE_LIMIT_EXCEEDED", "b", True)
        await say(socket, {"type": "cancel", "id": "a"})
        await hear_until(socket, "complete")
        await say(socket, inference | {"id": "c"})
        assert (await hear(socket))["type"] == "token"
    await eventually_idle(limited.stoa.engine, "talker")
    await limited.stoa.engine.close()


async def test_r5_of_three_processes_with_20_streams_each_at_once_exactly_5_run(limited: Limited):
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(limited.client("places", place)) for place in range(3)]
        sending = [
            client.send(client.build_request("POST", "/inference/stream", json=LONG), stream=True)
            for client in clients
            for _ in range(20)
        ]
        answers = await asyncio.gather(*sending)
        assert Counter(answer.status_code for answer in answers) == {200: 5, 429: 55}
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert b"At most 5 requests of this key run at once" in await refused.aread()
        assert (left(refused), refused.headers["retry-after"]) == ((5, 0), "1")
        for answer in answers:
            await answer.aclose()
        await until_let_in(clients[0], LONG)
    await eventually_idle(limited.stoa.engine, "talker", seconds=20)
    await limited.stoa.engine.close()


async def test_r5_a_user_with_many_keys_has_a_cap_and_another_user_is_served(limited: Limited):
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


async def test_r5_turning_text_into_tokens_takes_a_place_but_no_tokens(limited: Limited):
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
            await until_let_in(client, body, path)
    for path, body in asked.items():
        assert limited.post(path, "tokens", body).status_code == 200
    assert limited.post("/inference", "tokens", BODY | {"max_tokens": 95}).status_code == 200


def test_a_place_is_free_as_soon_as_its_answer_is_there(limited: Limited):
    with httpx2.Client(base_url=limited.urls[0], headers=limited.headers("two"), timeout=30) as client:
        body = BODY | {"max_tokens": 1}
        assert {client.post("/inference", json=body).status_code for _ in range(30)} == {200}
        assert {client.post("/inference/stream", json=body).status_code for _ in range(30)} == {200}


def test_r4_a_full_queue_is_503_with_the_time_that_the_engine_measured(limited: Limited):
    for path in ("/inference", "/inference/stream", "/v1/completions"):
        answer = limited.post(path, "plain", BODY | {"prompt": "full"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
    native = limited.post("/inference", "plain", BODY | {"prompt": "full"}).json()["error"]
    assert (native["code"], native["details"]) == ("INFERENCE_FAILED", {"reason": "queue_full"})


async def until_let_in(client: httpx2.AsyncClient, body: object, path: str = "/inference/stream") -> None:
    """Sends it until it is let in, and leaves."""
    deadline = time.monotonic() + 30
    while True:
        async with client.stream("POST", path, json=body) as answer:
            if answer.status_code == 200:
                return
            assert answer.status_code == 429
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
