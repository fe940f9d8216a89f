"""Row O3: marked words in requests to every endpoint appear in no log, trace, metric or broker."""

import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from websockets.asyncio.client import connect

from tests.canary import Canary, dump_redis, send_everything
from tests.inference.batches.workers import RunningWorker, get_results, running_worker, submit_batch, wait_until_ended
from tests.inference.running_server import (
    RunningServer,
    running_server_with_fake_models,
)
from tests.inference.websocket_client import (
    authenticated_websocket,
    receive_message,
    receive_until,
    send_messages,
    websocket_url,
)
from tests.otlp import Collector, running_collector
from tests.webhook_receivers import Receiver, respond_with, running_receiver

# Fields that decide how a body is handled; the canary would make it invalid.
STRUCTURE = (
    "model",
    "type",
    "role",
    "encoding_format",
    "endpoint",
    "completion_window",
    "events",
    "tool_choice",
    "url",
)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with running_receiver(respond_with(500, body=b"no")) as receiver:
        yield receiver


@pytest.fixture(scope="module")
def server(collector: Collector, receiver: Receiver) -> Iterator[RunningServer]:
    extra = collector.environment | {"STOA_WEBHOOK_ALLOW": receiver.authority}
    with running_server_with_fake_models(extra=extra) as stoa:
        yield stoa


@pytest.fixture(scope="module")
def worker(server: RunningServer) -> Iterator[RunningWorker]:
    with running_worker(server) as worker:
        yield worker


def document_of(stoa: RunningServer) -> dict[str, Any]:
    """Return the OpenAPI document with the names of the running models in its examples."""
    text = httpx2.get(f"{stoa.url}/openapi.json", timeout=60).text
    return dict(json.loads(text.replace("stoa-describer", "talker").replace("stoa-encoder", "embedder")))


def infer(stoa: RunningServer, prompt: str, word: str, **more: object) -> httpx2.Response:
    return stoa.post("/inference", {"model": "talker", "prompt": prompt, "stop": [word], "max_tokens": 2} | more)


def talk_nonsense(stoa: RunningServer, word: str) -> None:
    """Send request heads that are no HTTP."""
    parts = urlsplit(stoa.url)
    for head in (f"GET /?{word}\r\n\r\n", f"POST /inference HTTP/1.1\r\n{word}\r\n\r\n", f"{word} " * 5000):
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30) as peer:
            peer.sendall(head.encode())
            peer.recv(1000)


async def talk_on_a_socket(stoa: RunningServer, word: str) -> None:
    async with authenticated_websocket(stoa) as client:
        for prompt in (f"repeat {word}", "long", "silence"):
            frame = {"type": "inference", "id": prompt, "model": "talker", "prompt": prompt, "stop": [word]}
            await send_messages(client, frame | {"max_tokens": 2, "timeout": 1})
            await receive_until(client, "complete", "error")
        await send_messages(
            client, {"type": "inference", "id": word, "model": "talker", "prompt": 1, "more": word}, [word], word
        )
        for _ in range(3):
            assert (await receive_message(client))["type"] == "error"
    async with connect(websocket_url(stoa)) as client:
        await send_messages(client, {"type": "auth", "token": f"stoa_{word}_{word}"})
        assert (await receive_message(client))["type"] == "error"


def read_reports(stoa: RunningServer, worker: RunningWorker, collector: Collector) -> dict[str, str]:
    """Return everything that the server reports, by place."""
    return {
        "the server's log": stoa.log.read_text(),
        "the worker's log": worker.log.read_text(),
        "the traces": stoa.get("/traces?limit=1000").text,
        "the collector": collector.raw.decode("latin-1"),
        "the metrics": stoa.get("/metrics").text,
        "the broker": dump_redis(os.environ["REDIS_URL"]) if os.environ.get("REDIS_URL") else "",
    }


async def test_o3_content_of_requests_is_in_no_log_trace_metric_or_broker(
    server: RunningServer, worker: RunningWorker, collector: Collector, receiver: Receiver
):
    canary = Canary()
    word = canary.word
    assert word in infer(server, f"repeat {word}", "x").text
    for prompt in ("long", "full", "bug", "silence"):
        refused = infer(server, prompt, word, timeout=1)
        assert refused.status_code >= 400, prompt
        assert word not in refused.text
    for role, answers in {"SUPER_ADMIN": {200, 400, 404}, "CUSTOMER": {403}}.items():
        with httpx2.Client(base_url=server.url, headers=server.headers(role), timeout=60) as client:
            assert answers <= send_everything(client, document_of(server), canary, STRUCTURE)
    for headers in (
        {"Authorization": f"Bearer {word}"},
        {"X-API-Key": f"stoa_{word}_{word}"},
        {"X-Request-Id": "1 " + word},
    ):
        httpx2.get(f"{server.url}/models?token={word}", headers=headers, timeout=30)
    for path in ("/auth/login", "/admin/login/"):
        signing = {"username": canary.email(), "password": word}
        httpx2.post(server.url + path, json=signing, timeout=30)
        httpx2.post(server.url + path, data=signing, timeout=30)
    talk_nonsense(server, word)
    await talk_on_a_socket(server, word)

    secret = server.post("/webhooks", {"url": receiver.url}).json()["secret"]
    batch_id = submit_batch(
        server, f"repeat {word}", "long", "silence", timeout=1, webhook_url=receiver.url, stop=[word]
    )
    assert wait_until_ended(server, batch_id)["failed"] == 2
    assert word in json.dumps(get_results(server, batch_id))

    keys = [*server.keys.values(), secret, secret.removeprefix("whsec_")]
    where = {place: canary.find_in(text, *keys)[:3] for place, text in read_reports(server, worker, collector).items()}
    assert {place: found for place, found in where.items() if found} == {}


def test_o4_every_log_line_is_json(server: RunningServer, worker: RunningWorker, receiver: Receiver):
    server.get("/nowhere")
    infer(server, "bug", "x")
    server.post("/models", {})
    submit_batch(server, "hello", webhook_url=receiver.url)  # which answers 500, and the worker says so
    deadline = time.monotonic() + 60
    while not (worked := lines_of(worker)):
        assert time.monotonic() < deadline, worker.log.read_text()
        time.sleep(0.1)
    served = server.log.read_text().splitlines()
    assert len(served) > 5
    assert [line for line in served if not line.startswith('{"')] == []
    assert {"event", "level", "timestamp"} <= set.intersection(*(set(json.loads(line)) for line in [*served, *worked]))


def lines_of(worker: RunningWorker) -> list[str]:
    """Return the whole lines of the worker's own log, which follow Celery's greeting."""
    return [line for line in worker.log.read_text().splitlines(keepends=True) if line[0] == "{" and line[-1] == "\n"]


def test_o5_the_request_id_of_an_error_is_in_the_log(server: RunningServer):
    ids = [
        server.get("/nowhere").json()["request_id"],
        server.post("/inference", {"model": "nobody", "prompt": "x"}).json()["request_id"],
        server.post("/models", {}).json()["request_id"],
        infer(server, "bug", "x").json()["request_id"],
    ]
    deadline = time.monotonic() + 60
    while not set(ids) <= set(by_id := statuses_by_id(server)):  # a line is written after its answer
        assert time.monotonic() < deadline, by_id
        time.sleep(0.05)
    assert [by_id[one] for one in ids] == [404, 404, 405, 500]


def statuses_by_id(stoa: RunningServer) -> dict[str, int]:
    logged = [json.loads(line) for line in stoa.log.read_text().splitlines() if line.startswith("{")]
    return {line["request_id"]: line["status"] for line in logged if line["event"] == "request"}
