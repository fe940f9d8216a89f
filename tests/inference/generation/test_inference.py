"""POST /inference and POST /inference/stream of a running server."""

import asyncio
import json
import os
import signal
import time
from contextlib import AsyncExitStack
from itertools import pairwise

import httpx2
import pytest

from tests.inference.engine.processes import eventually_idle
from tests.inference.running_server import RunningServer, wait_until_generating
from tests.inference.websocket_client import server_process

BODY = {"model": "talker", "prompt": "speak"}
LONG = BODY | {"max_tokens": 4000}  # the fake takes 10 ms a token


def events_of(text: str) -> list[dict[str, object]]:
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]


def test_a_prompt_returns_text_and_its_token_usage(stoa: RunningServer):
    answer = stoa.post("/inference", BODY | {"max_tokens": 3})

    assert answer.status_code == 200
    body = answer.json()
    assert body["id"].startswith("inf_")
    assert body["model"] == "talker"
    assert body["choices"] == [{"text": "w0 w1 w2 ", "index": 0, "finish_reason": "length"}]
    assert body["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "total_tokens": 8,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    assert abs(body["created"] - time.time()) < 60
    assert body["processing_time_ms"] >= 0


@pytest.mark.parametrize("path", ["/inference", "/inference/stream"])
def test_s1_a_stream_has_every_index_once_and_one_done_event(stoa: RunningServer, path: str):
    answer = stoa.post(path, BODY | {"max_tokens": 100, "stream": True})

    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "no-cache" in answer.headers["cache-control"]
    events = events_of(answer.text)
    assert events[:-1] == [{"token": f"w{index} ", "index": index} for index in range(100)]
    assert events[-1] == {"done": True, "finish_reason": "length"}


async def test_a_waiting_request_holds_no_thread(stoa: RunningServer):
    server = server_process(stoa)
    async with stoa.client() as client, AsyncExitStack() as stack:
        await asyncio.gather(*(client.post("/inference", json=BODY) for _ in range(10)))  # what stays anyway is there
        before = server.num_threads()
        whole = []
        for number in range(7):
            whole.append(asyncio.create_task(client.post("/inference", json=LONG)))
            await wait_until_generating(stoa, "talker", number + 1)
        for number in range(7):
            await stack.enter_async_context(client.stream("POST", "/inference/stream", json=LONG))
            await wait_until_generating(stoa, "talker", 7 + number + 1)
        assert server.num_threads() < before + 7
        for answer in whole:
            answer.cancel()
        await asyncio.wait(whole)
    await eventually_idle(stoa.engine, "talker", seconds=30)
    await stoa.engine.close()


async def test_s1_the_first_event_is_sent_long_before_the_last_token(stoa: RunningServer):
    async with stoa.client() as client, client.stream("POST", "/inference/stream", json=LONG) as answer:
        lines = answer.aiter_lines()
        assert json.loads((await anext(lines)).removeprefix("data: ")) == {"token": "w0 ", "index": 0}
        assert (await stoa.engine.stats("talker")).running == 1
    await eventually_idle(stoa.engine, "talker")
    await stoa.engine.close()


def test_the_streaming_route_accepts_an_absent_stream_field_and_rejects_false(stoa: RunningServer):
    assert events_of(stoa.post("/inference/stream", BODY | {"max_tokens": 1}).text)[-1]["done"] is True

    refused = stoa.post("/inference/stream", BODY | {"stream": False})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "INVALID_REQUEST"
    assert "stream" in refused.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/inference", "/inference/stream", "/v1/chat/completions", "/embeddings"])
def test_another_method_is_405_with_the_allowed_methods(stoa: RunningServer, path: str):
    answer = stoa.get(path)

    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert answer.json()["error"]


async def test_s2_clients_that_disconnect_during_a_stream_leave_nothing_behind(stoa: RunningServer, whole: bool):
    async def come_and_leave() -> None:
        async with stoa.client() as client, client.stream("POST", "/inference/stream", json=LONG) as answer:
            await anext(answer.aiter_lines())

    server = server_process(stoa)
    for _ in range(10):  # what stays anyway is there
        await come_and_leave()
    await eventually_idle(stoa.engine, "talker", seconds=30)
    before, held, threads = server.memory_info().rss, server.num_fds(), server.num_threads()
    for _ in range(200 if whole else 40):
        await come_and_leave()
    await eventually_idle(stoa.engine, "talker", seconds=30)
    assert server.memory_info().rss - before < 16 * 2**20
    assert server.num_threads() <= threads + 1
    assert server.num_fds() <= held + 5
    await stoa.engine.close()


async def test_a_client_that_disconnects_before_the_response_frees_its_slot(stoa: RunningServer):
    async with stoa.client() as client:
        asking = asyncio.create_task(client.post("/inference", json=LONG))
        await wait_until_generating(stoa, "talker")
        asking.cancel()
        await asyncio.wait({asking})
    await eventually_idle(stoa.engine, "talker", seconds=30)
    await stoa.engine.close()


async def test_sixteen_concurrent_streams_are_not_mixed(stoa: RunningServer):
    async with stoa.client() as client:
        answers = await asyncio.gather(
            *(client.post("/inference/stream", json=BODY | {"max_tokens": 10 + number}) for number in range(16))
        )
    assert [len(events_of(answer.text)) for answer in answers] == [11 + number for number in range(16)]


async def test_s11_m6_a_model_killed_during_a_stream_ends_it_with_an_error_and_restarts(stoa: RunningServer):
    pid = await stoa.pid("talker")
    events: list[dict[str, object]] = []
    async with stoa.client() as client:
        async with client.stream("POST", "/inference/stream", json=LONG) as answer:
            async for line in answer.aiter_lines():
                if line and not events:
                    os.kill(pid, signal.SIGKILL)
                events += events_of(line)
        assert events[-1]["error"]["code"] == "INFERENCE_FAILED"  # type: ignore[index]
        assert not any("done" in event for event in events)

        await eventually_back(client)


async def test_s11_each_of_many_streams_of_a_killed_model_ends_with_an_error(stoa: RunningServer, whole: bool):
    streams = 1000 if whole else 100
    pid = await stoa.pid("talker")
    limits = httpx2.Limits(max_connections=streams)
    async with httpx2.AsyncClient(base_url=stoa.url, headers=stoa.headers(), limits=limits, timeout=100) as client:

        async def ending() -> dict[str, object]:
            answer = await client.post("/inference/stream", json=LONG)
            body: dict[str, object] = events_of(answer.text)[-1] if answer.status_code == 200 else answer.json()
            return body

        asked = [asyncio.create_task(ending()) for _ in range(streams)]
        deadline = time.monotonic() + 30
        while (stats := await stoa.engine.stats("talker")).running + stats.waiting < streams:
            assert time.monotonic() < deadline, stats
            await asyncio.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        endings = await asyncio.gather(*asked)
        assert {ending["error"]["code"] for ending in endings} == {"INFERENCE_FAILED"}  # type: ignore[index]
        await eventually_back(client)
    await stoa.engine.close()


async def eventually_back(client: httpx2.AsyncClient) -> None:
    deadline = time.monotonic() + 100
    while (again := await client.post("/inference", json=BODY)).status_code != 200:
        assert again.status_code == 503, again.text
        assert int(again.headers["retry-after"]) >= 1
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/inference", {"prompt": "die"}),
        ("/inference/stream", {"prompt": "die"}),
        ("/v1/completions", {"prompt": "die"}),
        ("/v1/completions", {"prompt": "die", "stream": True}),
    ],
)
def test_x6_a_model_that_crashes_before_the_first_byte_is_a_503_with_retry_after(
    stoa: RunningServer, path: str, body: dict[str, object]
):
    assert stoa.post("/inference", BODY).status_code == 200  # so that these crashes are no loop

    answer = stoa.post(path, {"model": "talker"} | body)

    assert answer.status_code == 503
    assert 1 <= int(answer.headers["retry-after"]) <= 120
    assert "x-should-retry" not in answer.headers
    error = answer.json()["error"]
    if path.startswith("/v1/"):
        assert (error["type"], error["code"]) == ("server_error", "inference_failed")
    else:
        assert (error["code"], error["details"]) == ("INFERENCE_FAILED", {"reason": "model_restarting"})
    assert "being restarted" in error["message"]
    assert stoa.post("/inference", BODY).status_code == 200


def test_a_prompt_that_is_too_long_is_rejected_with_its_token_counts_before_the_stream(stoa: RunningServer):
    answer = stoa.post("/inference/stream", BODY | {"prompt": "long"})

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "CONTEXT_LENGTH_EXCEEDED"
    assert answer.json()["error"]["details"] == {"context_size": 8, "prompt_tokens": 9, "max_tokens": 1}


def test_an_unloaded_model_is_400_and_an_unknown_one_404(stoa: RunningServer):
    unloaded = stoa.post("/inference", BODY | {"model": "idle"})
    assert unloaded.status_code == 400
    assert unloaded.json()["error"]["code"] == "MODEL_NOT_LOADED"

    unknown = stoa.post("/inference", BODY | {"model": "nobody"})
    assert unknown.status_code == 404
    assert unknown.json()["error"]["code"] == "MODEL_NOT_FOUND"
    assert {"talker", "embedder", "idle"} <= set(unknown.json()["error"]["details"]["available_models"])


async def test_i4_an_invalid_parameter_is_a_400_that_names_it_and_does_not_reach_the_engine(stoa: RunningServer):
    async with stoa.client() as client:
        for path in ("/inference", "/inference/stream"):
            for wrong in (
                {"temperature": 3},
                {"stop": ["a"] * 17},
                {"unknown": 1},
                {"n": 9},
                {"timeout": 0},
                {"priority": 11},
                {"prompt": "die", "top_k": True},
            ):
                answer = await client.post(path, json=BODY | wrong)
                assert answer.status_code == 400
                assert answer.json()["error"]["code"] == "INVALID_REQUEST"
                assert answer.json()["error"]["details"]["field"] == list(wrong)[-1]
        assert (await client.post("/inference", json=BODY)).status_code == 200  # "die" never reached it


def test_several_choices_are_returned_whole_and_streamed(stoa: RunningServer):
    whole = stoa.post("/inference", BODY | {"max_tokens": 2, "n": 3}).json()
    assert whole["choices"] == [{"text": "w0 w1 ", "index": index, "finish_reason": "length"} for index in range(3)]
    assert whole["usage"]["completion_tokens"] == 6

    events = events_of(stoa.post("/inference/stream", BODY | {"max_tokens": 2, "n": 2}).text)
    assert events == [
        {"token": "w0 ", "index": 0, "choice": 0},
        {"token": "w0 ", "index": 0, "choice": 1},
        {"token": "w1 ", "index": 1, "choice": 0},
        {"done": True, "finish_reason": "length", "choice": 0},
        {"token": "w1 ", "index": 1, "choice": 1},
        {"done": True, "finish_reason": "length", "choice": 1},
    ]


def test_the_engine_receives_the_user_and_the_parameters(stoa: RunningServer):
    body = BODY | {"prompt": "introduce", "max_tokens": 1}
    said = [
        stoa.post("/inference", body | more, role=role).json()["choices"][0]["text"].split()
        for role, more in [("STAFF", {}), ("SUPER_ADMIN", {}), ("SUPER_ADMIN", {"timeout": 9, "priority": 3})]
    ]
    assert said[0][1:] == ["n=1", "timeout=None", "priority=0"]
    assert said[2][1:] == ["n=1", "timeout=9.0", "priority=3"]
    assert said[0][0] != said[1][0] == said[2][0]


def test_a_priority_above_0_needs_manage_models(stoa: RunningServer):
    for path in ("/inference", "/inference/stream"):
        refused = stoa.post(path, BODY | {"priority": 1}, role="STAFF")
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "AUTHORIZATION_FAILED"
    assert stoa.post("/inference", BODY | {"priority": -1}, role="STAFF").status_code == 200


@pytest.mark.parametrize("path", ["/inference", "/inference/stream"])
def test_r7_a_timeout_before_the_first_token_is_a_503(stoa: RunningServer, path: str):
    answer = stoa.post(path, BODY | {"prompt": "silence", "timeout": 1})

    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "TIMEOUT"


async def test_s14_a_silent_stream_sends_a_comment_every_15_seconds(stoa: RunningServer, whole: bool):
    body = BODY | {"prompt": "silence", "timeout": 60 if whole else 28}
    heard = [time.monotonic()]
    async with stoa.client() as client, client.stream("POST", "/inference/stream", json=body, timeout=100) as answer:
        heard.append(time.monotonic())  # the head, and with it status 200
        async for line in answer.aiter_lines():
            if line:
                heard.append(time.monotonic())
                said = line
                assert line == ": keep-alive" or line.startswith("data: ")
    assert json.loads(said.removeprefix("data: "))["error"]["code"] == "TIMEOUT"
    assert len(heard) == (6 if whole else 4)
    assert max(later - earlier for earlier, later in pairwise(heard)) < 20


def test_r7_a_timeout_during_a_stream_is_its_last_event(stoa: RunningServer):
    for n in (1, 3):
        events = events_of(stoa.post("/inference/stream", LONG | {"timeout": 1, "n": n}).text)

        assert events[-1] == {"error": {"code": "TIMEOUT", "message": "Too late."}}
        assert len(events) > 2
        assert not any("done" in event or "error" in event for event in events[:-1])


async def test_s2_a_client_that_disconnects_before_the_first_token_frees_its_slot(stoa: RunningServer):
    async with stoa.client() as client:
        body = BODY | {"prompt": "silence"}
        asking = asyncio.create_task(client.post("/inference/stream", json=body))
        await wait_until_generating(stoa, "talker")
        asking.cancel()
        await asyncio.wait({asking})
    await eventually_idle(stoa.engine, "talker", seconds=30)
    await stoa.engine.close()


def test_a_form_is_415_and_broken_json_400(stoa: RunningServer):
    form = httpx2.post(f"{stoa.url}/inference", data={"model": "talker"}, headers=stoa.headers(), timeout=60)
    assert form.status_code == 415
    broken = httpx2.post(
        f"{stoa.url}/inference",
        content=b"{",
        headers=stoa.headers() | {"Content-Type": "application/json"},
        timeout=60,
    )
    assert broken.status_code == 400
    assert {form.json()["error"]["code"], broken.json()["error"]["code"]} == {"INVALID_REQUEST"}


def test_i3_a_chunked_body_is_accepted(stoa: RunningServer):
    body = json.dumps(BODY | {"max_tokens": "3"}).encode()

    answer = httpx2.post(
        f"{stoa.url}/inference",
        content=iter([body[:10], body[10:]]),
        headers=stoa.headers() | {"Content-Type": "application/json"},
        timeout=60,
    )

    assert answer.status_code == 400
    assert "max_tokens" in answer.json()["error"]["message"]


def test_a_large_body_is_parsed(stoa: RunningServer):
    answer = stoa.post("/inference", BODY | {"prompt": "a " * 100_000, "max_tokens": 1})

    assert answer.json()["usage"]["prompt_tokens"] == 200_000
