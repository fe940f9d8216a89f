"""OpenAI's batches through a real server, worker and model host."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.inference.batches.workers import RunningWorker, get_status, query_database, running_worker
from tests.inference.openai_batches.clients import (
    BODIES,
    CHAT,
    COMPLETION,
    EMBEDDINGS,
    MESSAGES,
    RESPONSES,
    TIMEOUT_SECONDS,
    create_batch,
    download_lines,
    upload_file,
    wait_until_ended,
)
from tests.inference.running_server import RunningServer
from tests.openapi_document import response_errors

VARYING = ("id", "created")
UNFINISHED = "SELECT count(*) FROM inference_batches_batch WHERE ended_at IS NULL"


@pytest.fixture(scope="module")
def worker(stoa: RunningServer) -> Iterator[RunningWorker]:
    with running_worker(stoa) as worker:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while query_database(stoa, UNFINISHED) != [0]:  # of other modules, whose usage would be counted here
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield worker


@pytest.mark.parametrize("endpoint", [CHAT, COMPLETION, EMBEDDINGS])
def test_a_batch_returns_the_same_answers_as_the_live_route(stoa: RunningServer, worker: RunningWorker, endpoint: str):
    live = stoa.post(endpoint, BODIES[endpoint]).json()
    expected = {name: live[name] for name in live if name not in VARYING}

    batch = wait_until_ended(stoa, create_batch(stoa, endpoint, [{}] * 20)["id"])

    assert (batch["status"], batch["error_file_id"]) == ("completed", None)
    assert batch["request_counts"] == {"total": 20, "completed": 20, "failed": 0}
    lines = download_lines(stoa, batch["output_file_id"])
    assert [line["custom_id"] for line in lines] == [f"r{place}" for place in range(20)]
    for line in lines:
        body = line["response"]["body"]
        assert {name: body[name] for name in body if name not in VARYING} == expected
        assert body.get("id", "").partition("-")[0] == live.get("id", "").partition("-")[0]
    native = get_status(stoa, batch["id"])
    assert (native["status"], native["completed"]) == ("completed", 20)
    results = stoa.get(f"/batch/{batch['id']}/results").json()
    assert len(results["results"]) == 20
    document = stoa.get("/openapi.json").json()
    assert response_errors(document, "get /batch/{batch_id}/results", results) == []


RESPONSE_VARYING = ("id", "created_at", "completed_at", "output", "usage")


@pytest.mark.parametrize("endpoint", [RESPONSES, MESSAGES])
def test_responses_and_messages_are_answered_in_their_own_forms(
    stoa: RunningServer, worker: RunningWorker, endpoint: str
):
    live = stoa.post(endpoint, BODIES[endpoint] | ({"store": False} if endpoint == RESPONSES else {})).json()
    usage = stoa.get("/usage").json()["total"]

    batch = wait_until_ended(stoa, create_batch(stoa, endpoint, [{}] * 5)["id"])

    assert (batch["status"], batch["endpoint"], batch["error_file_id"]) == ("completed", endpoint, None)
    lines = download_lines(stoa, batch["output_file_id"])
    bodies = [line["response"]["body"] for line in lines]
    assert len({body["id"] for body in bodies}) == 5
    for body in bodies:
        assert body.keys() == live.keys()
        assert {name: body[name] for name in body if name not in RESPONSE_VARYING} == {
            name: live[name] for name in live if name not in RESPONSE_VARYING
        }
        assert _texts(body) == _texts(live) == ["w0 w1 w2 "]
        assert body["usage"]["output_tokens"] == 3
    counted = stoa.get("/usage").json()["total"]
    assert counted["requests"] - usage["requests"] == 5
    assert counted["completion_tokens"] - usage["completion_tokens"] == 15
    results = stoa.get(f"/batch/{batch['id']}/results").json()
    assert [one["body"] for one in results["results"]] == bodies
    document = stoa.get("/openapi.json").json()
    assert response_errors(document, "get /batch/{batch_id}/results", results) == []


def _texts(body: dict[str, Any]) -> list[str]:
    if body.get("object") != "response":
        return [block["text"] for block in body["content"]]
    return [part["text"] for item in body["output"] for part in item["content"]]


def test_a_failed_request_is_in_the_error_file_with_the_live_routes_error(stoa: RunningServer, worker: RunningWorker):
    too_long = {"prompt": "long"}
    live = httpx2.post(
        f"{stoa.url}{COMPLETION}", json=BODIES[COMPLETION] | too_long, headers=stoa.headers(), timeout=30
    )

    batch = wait_until_ended(stoa, create_batch(stoa, COMPLETION, [{}, too_long, {}])["id"])

    assert batch["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert [line["custom_id"] for line in download_lines(stoa, batch["output_file_id"])] == ["r0", "r2"]
    (line,) = download_lines(stoa, batch["error_file_id"])
    assert line["custom_id"] == "r1"
    assert line["response"]["status_code"] == live.status_code == 400
    for name in ("code", "type", "message"):
        assert line["response"]["body"]["error"][name] == live.json()["error"][name]


def test_b4_concurrent_requests_with_one_idempotency_key_create_one_file_batch(stoa: RunningServer):
    file_id = upload_file(
        stoa, json.dumps({"custom_id": "a", "method": "POST", "url": CHAT, "body": BODIES[CHAT]}).encode()
    )
    body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    headers = stoa.headers() | {"Idempotency-Key": "one batch"}

    def send(number: int) -> httpx2.Response:
        return httpx2.post(f"{stoa.url}/v1/batches", json=body, headers=headers, timeout=60)

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(send, range(10)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["id"] for answer in answers}) == 1
    created = [one for one in stoa.get("/v1/batches").json()["data"] if one["input_file_id"] == file_id]
    assert len(created) == 1
    other = httpx2.post(f"{stoa.url}/v1/batches", json=body | {"metadata": {}}, headers=headers, timeout=60)
    assert other.status_code == 400


def test_a_cancelled_batch_writes_its_files(stoa: RunningServer, worker: RunningWorker):
    batch = create_batch(stoa, CHAT, [{"max_tokens": 3000}] * 40)

    answer = stoa.post(f"/v1/batches/{batch['id']}/cancel")
    assert answer.json()["status"] in ("cancelling", "cancelled")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (batch := stoa.get(f"/v1/batches/{batch['id']}").json())["status"] != "cancelled":
        assert time.monotonic() < deadline, batch
        time.sleep(0.1)

    lines = download_lines(stoa, batch["error_file_id"])
    assert len(lines) + batch["request_counts"]["completed"] == 40
    assert {line["error"]["code"] for line in lines} == {"batch_cancelled"}
