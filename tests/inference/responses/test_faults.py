"""Responses under faults: cut connections, killed processes, no broker. Rows P1, P2 and P4.

RESPONSE_CUTS and RESPONSE_KILLS scale the two random tests; the acceptance figures are 1,000 cuts and 100 kills.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import redis

from shared.serving.processes.local_redis import LocalRedis
from tests.inference.batches.workers import RunningWorker, query_database, start_worker
from tests.inference.running_server import RunningServer, running_server_with_fake_models, start_server

CUTS = int(os.environ.get("RESPONSE_CUTS", "12"))
KILLS = int(os.environ.get("RESPONSE_KILLS", "4"))
RESPONSES_PER_KILL = 2
FINAL = ("completed", "incomplete", "failed", "cancelled")


def words(count: int) -> str:
    return "".join(f"w{number} " for number in range(count))


@dataclass
class StreamReader:
    """A client that reads a stream in pieces, from any of several servers, and checks the order of its events."""

    urls: list[str]
    headers: dict[str, str]
    next_number: int = 0
    text: str = ""
    response_id: str = ""
    final: dict[str, Any] | None = None
    delays: list[float] = field(default_factory=list)  # seconds from each reconnect to its first event

    def create(self, body: dict[str, Any], cut_after: int) -> None:
        self._read("POST", f"{self.urls[0]}/v1/responses", body, cut_after)

    def resume(self, url: str, cut_after: int) -> None:
        query = "stream=true" + (f"&starting_after={self.next_number - 1}" if self.next_number else "")
        self._read("GET", f"{url}/v1/responses/{self.response_id}?{query}", None, cut_after)

    def _read(self, method: str, url: str, body: dict[str, Any] | None, cut_after: int) -> None:
        began, count = time.monotonic(), 0
        with httpx2.stream(method, url, json=body, headers=self.headers, timeout=60) as response:
            if response.status_code != 200:
                raise AssertionError(response.read().decode())
            for line in response.iter_lines():
                if not line.startswith("data: "):
                    continue
                if not count and body is None:
                    self.delays.append(time.monotonic() - began)
                self._add(json.loads(line.removeprefix("data: ")))
                count += 1
                if count == cut_after or self.final:
                    return

    def _add(self, event: dict[str, Any]) -> None:
        assert event["sequence_number"] == self.next_number
        self.next_number += 1
        if event["type"] == "response.created":
            self.response_id = event["response"]["id"]
        if event["type"] == "response.output_text.delta":
            self.text += event["delta"]
        if event["type"] in ("response.completed", "response.incomplete", "response.failed"):
            self.final = event["response"]


@contextlib.contextmanager
def second_server(stoa: RunningServer) -> Iterator[str]:
    """Run another web process on the same database and models."""
    process, url = start_server(stoa.environment, stoa.log.with_name("second.log"))
    try:
        yield url
    finally:
        process.terminate()
        process.wait(45)


def test_p1_cut_streams_resume_on_another_web_process_with_every_event_once(stoa: RunningServer):
    chance = random.Random(26)
    length = 40
    with second_server(stoa) as other_url:
        urls = [stoa.url, other_url]

        def read_with_cuts(cuts: int) -> StreamReader:
            reader = StreamReader(urls, stoa.headers())
            reader.create(
                {"model": "talker", "input": "speak", "stream": True, "max_output_tokens": length},
                chance.randint(1, 12),
            )
            for number in range(cuts):
                if reader.final:
                    break
                reader.resume(urls[(number + 1) % 2], chance.randint(1, 12))
            while not reader.final:
                reader.resume(other_url, 1000)
            return reader

        cut_count, delays = 0, []
        with ThreadPoolExecutor(4) as pool:
            while cut_count < CUTS:
                for reader in pool.map(read_with_cuts, [4] * 4):
                    cut_count += len(reader.delays)
                    delays += reader.delays
                    assert reader.text == words(length)
                    assert reader.final is not None
                    assert reader.final["output"][0]["content"][0]["text"] == words(length)
                    assert reader.next_number == length + 8
    print(f"{cut_count} cuts, slowest first event after {max(delays):.2f} s")


def test_p1_a_stream_that_was_cut_and_cancelled_ends_on_another_web_process(stoa: RunningServer):
    with second_server(stoa) as other_url:
        for _ in range(3):
            reader = StreamReader([stoa.url], stoa.headers())
            body = {"model": "talker", "input": "speak", "stream": True, "max_output_tokens": 3000}
            reader.create(body, cut_after=40)  # of which the last ones are not written yet
            cancelled = stoa.post(f"/v1/responses/{reader.response_id}/cancel", {}).json()

            reader.resume(other_url, 10_000)

            assert cancelled["status"] == "cancelled"
            assert reader.final == cancelled == stoa.get(f"/v1/responses/{reader.response_id}").json()


def test_p4_a_stored_stream_whose_client_never_reads_is_written_and_holds_no_memory(stoa: RunningServer):
    host, port = stoa.url.removeprefix("http://").split(":")
    body = json.dumps({"model": "talker", "input": "speak", "stream": True, "max_output_tokens": 300}).encode()
    head = (
        f"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nAuthorization: {stoa.headers()['Authorization']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    before = set(query_database(stoa, "SELECT response_id FROM inference_responses_storedresponse"))
    with contextlib.ExitStack() as sockets:
        for _ in range(5):
            connection = sockets.enter_context(socket.create_connection((host, int(port))))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            connection.sendall(head.encode() + body)
        deadline = time.monotonic() + 30
        while len(texts := _texts_of_new_responses(stoa, before)) < 5:
            assert time.monotonic() < deadline, len(texts)
            time.sleep(0.1)
    assert set(texts) == {words(300)}


def _texts_of_new_responses(stoa: RunningServer, before: set[str]) -> list[str]:
    rows = query_database(
        stoa, "SELECT body FROM inference_responses_storedresponse WHERE status = 'incomplete' ORDER BY id DESC LIMIT 5"
    )
    responses = [json.loads(row) for row in rows]
    return [one["output"][0]["content"][0]["text"] for one in responses if one["id"] not in before]


@dataclass
class Processes:
    """The processes of a running Stoa that a test kills and replaces."""

    stoa: RunningServer
    store: LocalRedis
    webs: list[tuple[subprocess.Popen[bytes], str]] = field(default_factory=list)
    workers: list[RunningWorker] = field(default_factory=list)

    def start_web(self) -> None:
        log = self.stoa.log.with_name(f"web-{len(self.webs)}-{time.monotonic_ns()}.log")
        self.webs.append(start_server(self.stoa.environment, log))

    def start_worker(self) -> None:
        self.workers.append(start_worker(self.stoa.environment, self.stoa.log.with_name("workers.log")))

    def kill(self, chance: random.Random) -> str:
        """Kill a random process with SIGKILL, and start another in its place. Return what it was."""
        kind = chance.choice(["web", "worker", "worker", "model", "redis"])
        if kind == "web":
            process, _ = self.webs.pop(chance.randrange(len(self.webs)))
            process.kill()
            process.wait()
            self.start_web()
        elif kind == "worker":
            self.workers.pop(chance.randrange(len(self.workers))).kill()
            self.start_worker()
        elif kind == "redis":
            os.kill(redis.Redis.from_url(self.store.url).info()["process_id"], signal.SIGKILL)
            self.store.stop()
            self.store.start()
        else:
            with contextlib.suppress(ProcessLookupError, AssertionError):
                os.kill(asyncio.run(self.stoa.pid("talker")), signal.SIGKILL)
        return kind

    def stop(self) -> None:
        for process, _ in self.webs:
            process.terminate()
        for process, _ in self.webs:
            process.wait(45)
        for worker in self.workers:
            worker.kill()


def test_p2_background_responses_are_finished_once_whatever_is_killed():
    chance = random.Random(26)
    length = 60
    killed: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="stoa") as folder,
        LocalRedis(Path(folder)) as store,
        running_server_with_fake_models(extra={"REDIS_URL": store.url}) as stoa,
    ):
        processes = Processes(stoa, store)
        try:
            processes.start_web()
            for _ in range(2):
                processes.start_worker()
            body = {"model": "talker", "input": "speak", "background": True, "max_output_tokens": length}
            ids = []
            for _ in range(KILLS):
                for _ in range(RESPONSES_PER_KILL):
                    created = stoa.post("/v1/responses", body)
                    assert created.status_code == 200, created.text
                    ids.append(created.json()["id"])
                time.sleep(chance.uniform(0.2, 1.5))
                killed[processes.kill(chance)] += 1
            responses = _wait_for_all(stoa, ids, seconds=120 + KILLS * 5)
            for response_id, response in responses.items():
                assert response["status"] == "incomplete", response["error"]
                assert response["output"][0]["content"][0]["text"] == words(length)
                reader = StreamReader([stoa.url], stoa.headers(), response_id=response_id)
                reader.resume(stoa.url, 10_000)
                assert reader.text == words(length)
                assert reader.next_number == length + 9
            usage = stoa.get("/usage").json()["total"]
            assert usage["completion_tokens"] == length * len(ids)
            assert usage["requests"] == len(ids)
            print(f"{len(ids)} responses, killed: {dict(killed)}")
        finally:
            processes.stop()


def _wait_for_all(stoa: RunningServer, ids: list[str], seconds: float) -> dict[str, dict[str, Any]]:
    deadline = time.monotonic() + seconds
    ended: dict[str, dict[str, Any]] = {}
    while len(ended) < len(ids):
        for response_id in set(ids) - ended.keys():
            response = stoa.get(f"/v1/responses/{response_id}").json()
            if response["status"] in FINAL:
                ended[response_id] = response
        assert time.monotonic() < deadline, f"{len(ended)} of {len(ids)} have ended"
        time.sleep(0.2)
    return ended


def test_p2_a_background_response_is_finished_without_a_broker(stoa: RunningServer):
    environment = stoa.environment | {"REDIS_URL": "redis://127.0.0.1:1/0"}
    created = stoa.post("/v1/responses", {"model": "talker", "input": "speak", "background": True}).json()
    worker = start_worker(environment, stoa.log.with_name("brokerless.log"))
    try:
        response = _wait_for_all(stoa, [created["id"]], seconds=60)[created["id"]]
    finally:
        worker.kill()

    assert response["output"][0]["content"][0]["text"] == words(10)


def test_a_streamed_response_fails_when_its_web_process_dies(stoa: RunningServer):
    process, url = start_server(stoa.environment, stoa.log.with_name("dying.log"))
    reader = StreamReader([url], stoa.headers())
    reader.create({"model": "talker", "input": "speak", "stream": True, "max_output_tokens": 3000}, cut_after=20)
    time.sleep(0.5)  # until the events are written
    process.kill()
    process.wait()

    began = time.monotonic()
    reader.resume(stoa.url, 10_000)

    assert reader.final is not None
    assert reader.final["status"] == "failed"
    assert reader.final["error"]["code"] == "server_error"
    assert time.monotonic() < began + 20
    assert stoa.get(f"/v1/responses/{reader.response_id}").json() == reader.final
