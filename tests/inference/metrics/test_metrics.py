"""GET /metrics of a running server with fake models: exact values after known requests."""

import asyncio
import contextlib
import json
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator

import httpx2
import psutil
import pytest

from tests.inference.batches.workers import running_worker, submit_batch, wait_until_ended
from tests.inference.running_server import (
    RunningServer,
    running_server_with_fake_models,
    start_server,
)
from tests.inference.websocket_client import authenticated_websocket, receive_until, send_messages
from tests.shared.observability.scraped import Scrape, grown

CANARY = "canary" + secrets.token_hex(8)
SPOKEN = {"model": "talker", "prompt": "hello", "max_tokens": 4}
GENERATED = [
    "stoa_inference_requests_total",
    "stoa_inference_duration_seconds_count",
    "stoa_e2e_request_latency_seconds_count",
    "stoa_time_to_first_token_seconds_count",
    "stoa_inter_token_latency_seconds_count",
    "stoa_prompt_tokens_total",
    "stoa_prompt_tokens_cached_total",
    "stoa_generation_tokens_total",
]


@pytest.fixture(scope="module")
def counted() -> Iterator[RunningServer]:
    """A server whose metrics only this module changes."""
    with running_server_with_fake_models("broken-model") as stoa:
        yield stoa


@contextlib.contextmanager
def another(stoa: RunningServer, **extra: str) -> Iterator[tuple[psutil.Process, str]]:
    """A second server with the same models, database and metrics."""
    process, url = start_server(stoa.environment | extra, stoa.log.with_suffix(".second"))
    try:
        yield psutil.Process(process.pid), url
    finally:
        process.kill()
        process.wait()


def scrape(stoa: RunningServer, url: str = "") -> Scrape:
    answer = httpx2.get((url or stoa.url) + "/metrics", headers=stoa.headers(), timeout=30)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Scrape(answer.text)


def eventually(stoa: RunningServer, holds: Callable[[Scrape], bool]) -> Scrape:
    deadline = time.monotonic() + 60
    while not holds(told := scrape(stoa)):
        assert time.monotonic() < deadline, told.text
        time.sleep(0.05)
    return told


def test_every_generation_is_counted_once_and_exactly(counted: RunningServer) -> None:
    before = scrape(counted)
    for _ in range(3):
        assert counted.post("/inference", SPOKEN).status_code == 200
    assert counted.post("/inference/stream", SPOKEN).text.count("data:") == 5
    assert counted.post("/v1/completions", SPOKEN | {"n": 2}).status_code == 200
    after = scrape(counted)
    assert grown(after, before, GENERATED, model="talker") == [5, 5, 5, 5, 18, 25, 10, 24]
    ended = before.value("stoa_request_success_total", model="talker", finished_reason="length")
    assert after.value("stoa_request_success_total", model="talker", finished_reason="length") - ended == 5
    bucket = "stoa_inference_duration_seconds_bucket"
    assert after.value(bucket, model="talker", le="+Inf") - before.value(bucket, model="talker", le="+Inf") == 5


def test_the_contracts_two_metrics_have_their_types(counted: RunningServer) -> None:
    assert counted.post("/inference", SPOKEN).status_code == 200
    told = scrape(counted)
    assert "# TYPE stoa_inference_requests_total counter\n" in told.text
    assert "# TYPE stoa_inference_duration_seconds histogram\n" in told.text


def test_metrics_of_workers_are_reported(counted: RunningServer) -> None:
    told = scrape(counted).types
    assert {told[f"stoa_{name}"] for name in ("webhook_attempts", "batch_results", "batches_ended")} == {"counter"}


def test_embeddings_and_websockets_are_counted(counted: RunningServer) -> None:
    before = scrape(counted)
    assert counted.post("/embeddings", {"model": "embedder", "input": ["a", "bc"]}).status_code == 200

    async def talk() -> Scrape:
        async with authenticated_websocket(counted) as client:
            await send_messages(client, {"type": "inference", "id": "1", **SPOKEN})
            await receive_until(client, "complete")
            return await asyncio.to_thread(scrape, counted)

    during = asyncio.run(talk())
    assert during.value("stoa_websocket_connections") == 1
    after = eventually(counted, lambda told: told.value("stoa_websocket_connections") == 0)
    assert grown(after, before, GENERATED[:1], model="embedder") == [1]
    assert grown(after, before, GENERATED[:1], model="talker") == [1]
    assert grown(after, before, ["stoa_websocket_connections_total"]) == [1]


def test_http_is_counted_by_route_method_and_status(counted: RunningServer) -> None:
    health = {"method": "GET", "route": "/health", "status": "200"}
    lost = {"method": "GET", "route": "/batch/<batch_id>", "status": "404"}
    wrong = {"method": "DELETE", "route": "/models", "status": "405"}
    named = "stoa_http_requests_total"
    before = scrape(counted)
    for number in range(4):
        counted.get("/health")
        counted.get(f"/batch/batch_{number}")
    httpx2.delete(f"{counted.url}/models", headers=counted.headers(), timeout=30)
    after = eventually(counted, lambda told: grown(told, before, [named], **wrong) == [1])
    assert grown(after, before, [named], **health) == [4]
    assert grown(after, before, [named], **lost) == [4]
    assert after.value("stoa_http_requests_in_progress") == 1  # this request


def test_gauges_are_back_at_zero_after_clients_have_left(counted: RunningServer) -> None:
    before = scrape(counted)
    gone = {"model": "talker", "finished_reason": "cancelled"}

    async def leave() -> Scrape:
        body = {"model": "talker", "prompt": "go on", "max_tokens": 4000}
        async with counted.client() as client, client.stream("POST", "/inference/stream", json=body) as answer:
            lines = answer.aiter_lines()  # the iterator closes the response when it is collected
            assert '"token"' in await anext(lines)
            return await asyncio.to_thread(scrape, counted)

    during = asyncio.run(leave())
    assert during.value("stoa_num_requests_running", model="talker") == 1
    assert during.value("stoa_http_requests_in_progress") == 2
    after = eventually(counted, lambda told: grown(told, before, ["stoa_request_success_total"], **gone) == [1])
    after = eventually(counted, lambda told: told.value("stoa_num_requests_running", model="talker") == 0)
    after = eventually(counted, lambda told: told.value("stoa_http_requests_in_progress") == 1)
    assert after.value("stoa_num_requests_waiting", model="talker") == 0


def test_two_servers_report_the_same_and_a_killed_one_leaves_only_its_counters(counted: RunningServer) -> None:
    with another(counted) as (process, url):
        before = scrape(counted)
        for _ in range(3):
            assert httpx2.post(f"{url}/inference", json=SPOKEN, headers=counted.headers()).status_code == 200
        assert counted.post("/inference", SPOKEN).status_code == 200
        for told in (scrape(counted), scrape(counted, url)):
            assert grown(told, before, GENERATED[:1], model="talker") == [4]

        async def die_with_a_socket_open() -> None:
            async with authenticated_websocket(replaced(counted, url)) as client:
                assert (await asyncio.to_thread(scrape, counted)).value("stoa_websocket_connections") == 1
                process.kill()
                await client.wait_closed()

        asyncio.run(die_with_a_socket_open())
        process.wait()
        after = scrape(counted)
        assert grown(after, before, GENERATED[:1], model="talker") == [4]
        assert after.value("stoa_websocket_connections") == 0


def replaced(stoa: RunningServer, url: str) -> RunningServer:
    return RunningServer(url, stoa.keys, stoa.host, stoa.engine, stoa.environment, stoa.models_dir, stoa.log)


def test_o6_an_unreachable_model_host_is_reported(counted: RunningServer) -> None:
    assert scrape(counted).value("stoa_model_host_up") == 1
    with (
        tempfile.TemporaryDirectory(prefix="stoa-no-host") as nobody,
        another(counted, STOA_RUN_DIR=nobody, STOA_START_HOST="false") as (_, url),
    ):
        told = scrape(counted, url)
    assert told.named("stoa_model_host_up") == {(): 0}
    assert told.named("stoa_model_loaded") == {}


def test_a_dead_model_process_leaves_no_gauge_and_is_restarted(counted: RunningServer) -> None:
    before = scrape(counted)
    assert counted.post("/inference", SPOKEN | {"prompt": "die"}).status_code == 503
    ended = {"model": "talker", "finished_reason": "error"}
    eventually(counted, lambda told: grown(told, before, ["stoa_request_success_total"], **ended) == [1])
    after = eventually(counted, lambda told: told.value("stoa_model_loaded", model="talker") == 1)
    assert grown(after, before, GENERATED[:1], model="talker") == [1]
    assert after.named("stoa_num_requests_running")[(("model", "talker"),)] == 0


def test_o1_unknown_models_and_paths_share_one_series(counted: RunningServer) -> None:
    counted.post("/inference", {"model": "nobody", "prompt": "x"})
    counted.get("/nowhere")
    before = scrape(counted)
    with httpx2.Client(base_url=counted.url, headers=counted.headers(), timeout=30) as client:
        for _ in range(150):
            name = secrets.token_hex(6)
            assert client.post("/inference", json={"model": name, "prompt": "x"}).status_code == 404
            assert client.get(f"/{name}").status_code == 404
            assert client.request(f"X{name[:4].upper()}", "/models").status_code in (400, 405)
    after = eventually(
        counted, lambda told: grown(told, before, ["stoa_inference_requests_total"], model="other") == [150]
    )
    assert len(after.series) - len(before.series) <= 50
    assert len(after.text) < 2 * 1024 * 1024
    assert after.labels("model") == {"talker", "embedder", "other"}


def test_o2_metrics_need_their_permission(counted: RunningServer) -> None:
    sent = {"name": "cups", "value": 1}
    for role, status in {"": 401, "CUSTOMER": 403, "STAFF": 403, "STORE_OWNER": 403, "READER": 403}.items():
        headers = counted.headers(role) if role else {}
        for answer in (
            httpx2.get(f"{counted.url}/metrics", headers=headers, timeout=30),
            httpx2.post(f"{counted.url}/metrics/custom", json=sent, headers=headers, timeout=30),
        ):
            assert answer.status_code == status, role
            assert "stoa_" not in answer.text
    assert "cups" not in scrape(counted).text


def test_o2_public_metrics_need_no_credential(counted: RunningServer) -> None:
    with another(counted, STOA_METRICS_PUBLIC="true") as (_, url):
        answer = httpx2.get(f"{url}/metrics", timeout=30)
        assert answer.status_code == 200
        assert "# TYPE stoa_inference_requests_total counter" in answer.text
        sent = {"name": "cups", "value": 1}
        assert httpx2.post(f"{url}/metrics/custom", json=sent, timeout=30).status_code == 401


def test_o3_no_label_has_content_of_requests(counted: RunningServer) -> None:
    counted.post("/inference", SPOKEN | {"prompt": CANARY})
    counted.post("/inference", {"model": CANARY, "prompt": CANARY})
    counted.post("/auth/login", {"username": f"{CANARY}@example.com", "password": CANARY})
    counted.get(f"/{CANARY}?q={CANARY}")
    counted.post("/batch", {"model": "talker", "requests": [{"id": CANARY, "prompt": CANARY}]})
    httpx2.get(f"{counted.url}/models", headers={"Authorization": f"Bearer {CANARY}"}, timeout=30)
    told = scrape(counted).text
    assert CANARY not in told
    assert counted.keys["SUPER_ADMIN"] not in told


def test_queues_in_the_database_are_reported(counted: RunningServer) -> None:
    """No worker runs, so the batch stays in the queue."""
    before = scrape(counted)
    batch = {"model": "talker", "requests": [{"id": f"r{number}", "prompt": "x"} for number in range(5)]}
    made = counted.post("/batch", batch).json()
    after = scrape(counted)
    assert grown(after, before, ["stoa_batches_processing", "stoa_batch_requests_open"]) == [1, 5]
    assert after.value("stoa_batch_oldest_age_seconds") > 0
    assert counted.post(f"/batch/{made['batch_id']}/cancel").status_code == 200
    ended = scrape(counted)
    assert grown(ended, before, ["stoa_batches_processing", "stoa_batch_requests_open"]) == [0, 0]
    assert grown(ended, before, ["stoa_batches_ended_total"], status="cancelled") == [1]


def revision_of_talker(counted: RunningServer) -> int:
    return next(one.revision for one in asyncio.run(counted.host.models()) if one.model_id == "talker")


def test_loads_are_counted_once_by_outcome(counted: RunningServer) -> None:
    revision = revision_of_talker(counted)
    assert counted.post("/models/talker/unload").status_code == 200
    before = scrape(counted)
    assert counted.post("/models/broken-model/load", {}).status_code >= 400
    for _ in range(2):  # the second one finds it loaded
        assert counted.post("/models/talker/load", {}).status_code == 200
    eventually(counted, lambda told: revision_of_talker(counted) >= revision + 3)  # the reconciler has seen it
    after = scrape(counted)
    assert grown(after, before, ["stoa_model_loads_total"], model="broken-model", outcome="failed") == [1]
    assert grown(after, before, ["stoa_model_loads_total"], model="talker", outcome="loaded") == [1]
    assert after.value("stoa_model_loaded", model="talker") == 1


def test_custom_metrics_are_reported_with_the_others(counted: RunningServer) -> None:
    labels = {"room": 'the "blue" one'}
    sent = {"name": "cups_in_use", "value": 3, "type": "gauge", "labels": labels}
    answer = counted.post("/metrics/custom", sent)
    assert (answer.status_code, answer.json()) == (200, sent | {"status": "ok", "value": 3.0})
    assert (
        counted.post("/metrics/custom", {"name": "cups_made_total", "value": 2, "type": "counter"}).json()["value"] == 2
    )
    assert (
        counted.post("/metrics/custom", {"name": "cups_made_total", "value": 5, "type": "counter"}).json()["value"] == 7
    )
    told = scrape(counted)
    assert told.value("cups_in_use", **labels) == 3
    assert told.value("cups_made_total") == 7
    refused = counted.post("/metrics/custom", {"name": "stoa_inference_requests_total", "value": 1})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert json.loads(refused.text)["error"]["details"] == {"field": "name"}


def test_the_server_reports_a_workers_metrics_after_it_has_ended(counted: RunningServer) -> None:
    before = scrape(counted)
    with running_worker(counted) as worker:
        told = wait_until_ended(counted, submit_batch(counted, "speak", "long", "speak", max_tokens=3))
        assert (told["completed"], told["failed"]) == (2, 1)
        worker.kill()
    after = scrape(counted)
    assert grown(after, before, GENERATED, model="talker") == [3, 3, 2, 0, 0, 10, 4, 6]
    for outcome, count in {"completed": 2, "failed": 1}.items():
        assert grown(after, before, ["stoa_batch_results_total"], outcome=outcome) == [count]
    assert grown(after, before, ["stoa_batches_ended_total"], status="completed") == [1]
