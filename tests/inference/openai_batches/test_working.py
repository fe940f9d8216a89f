"""Batches of files through a real worker over a real model host, as clients see them."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.inference.batches.workers import RunningWorker, running_worker, status
from tests.inference.openai_batches.clients import (
    BODIES,
    CHAT,
    COMPLETION,
    EMBEDDINGS,
    LIMIT_S,
    ended,
    lines_of,
    make,
    upload,
)
from tests.inference.served import ServedStoa

VARYING = ("id", "created")


@pytest.fixture(scope="module")
def worker(stoa: ServedStoa) -> Iterator[RunningWorker]:
    with running_worker(stoa) as worker:
        yield worker


@pytest.mark.parametrize("endpoint", [CHAT, COMPLETION, EMBEDDINGS])
def test_a_batch_of_a_file_answers_as_the_live_route_does(stoa: ServedStoa, worker: RunningWorker, endpoint: str):
    live = stoa.post(endpoint, BODIES[endpoint]).json()
    expected = {name: live[name] for name in live if name not in VARYING}

    told = ended(stoa, make(stoa, endpoint, [{}] * 20)["id"])

    assert (told["status"], told["error_file_id"]) == ("completed", None)
    assert told["request_counts"] == {"total": 20, "completed": 20, "failed": 0}
    lines = lines_of(stoa, told["output_file_id"])
    assert [line["custom_id"] for line in lines] == [f"r{place}" for place in range(20)]
    for line in lines:
        body = line["response"]["body"]
        assert {name: body[name] for name in body if name not in VARYING} == expected
        assert body.get("id", "").partition("-")[0] == live.get("id", "").partition("-")[0]
    native = status(stoa, told["id"])
    assert (native["status"], native["completed"]) == ("completed", 20)


def test_what_fails_is_in_the_error_file_with_the_live_routes_code(stoa: ServedStoa, worker: RunningWorker):
    too_long = {"prompt": "long"}
    live = httpx2.post(
        f"{stoa.url}{COMPLETION}", json=BODIES[COMPLETION] | too_long, headers=stoa.headers(), timeout=30
    )

    told = ended(stoa, make(stoa, COMPLETION, [{}, too_long, {}])["id"])

    assert told["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert [line["custom_id"] for line in lines_of(stoa, told["output_file_id"])] == ["r0", "r2"]
    (line,) = lines_of(stoa, told["error_file_id"])
    assert line["custom_id"] == "r1"
    assert line["response"]["status_code"] == live.status_code == 400
    for name in ("code", "type", "message"):
        assert line["response"]["body"]["error"][name] == live.json()["error"][name]


def test_b4_a_batch_that_is_sent_many_times_with_its_key_is_made_once(stoa: ServedStoa):
    file_id = upload(stoa, json.dumps({"custom_id": "a", "method": "POST", "url": CHAT, "body": BODIES[CHAT]}).encode())
    body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    headers = stoa.headers() | {"Idempotency-Key": "one batch"}

    def send(number: int) -> httpx2.Response:
        return httpx2.post(f"{stoa.url}/v1/batches", json=body, headers=headers, timeout=60)

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(send, range(10)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["id"] for answer in answers}) == 1
    made = [one for one in stoa.get("/v1/batches").json()["data"] if one["input_file_id"] == file_id]
    assert len(made) == 1
    other = httpx2.post(f"{stoa.url}/v1/batches", json=body | {"metadata": {}}, headers=headers, timeout=60)
    assert other.status_code == 400


def test_a_cancelled_batch_ends_with_what_it_has(stoa: ServedStoa, worker: RunningWorker):
    told = make(stoa, CHAT, [{"max_tokens": 3000}] * 40)

    answer = stoa.post(f"/v1/batches/{told['id']}/cancel")
    assert answer.json()["status"] in ("cancelling", "cancelled")
    deadline = time.monotonic() + LIMIT_S
    while (told := stoa.get(f"/v1/batches/{told['id']}").json())["status"] != "cancelled":
        assert time.monotonic() < deadline, told
        time.sleep(0.1)

    lines = lines_of(stoa, told["error_file_id"])
    assert len(lines) + told["request_counts"]["completed"] == 40
    assert {line["error"]["code"] for line in lines} == {"batch_cancelled"}
