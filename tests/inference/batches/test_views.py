"""Routes of /batch on a running server: validation, permissions, idempotency and lists."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.inference.batches.workers import (
    get_status,
    query_database,
    submit_batch,
)
from tests.inference.running_server import RunningServer

BATCHES = "SELECT count(*) FROM inference_batches_batch"
REQUESTS = "SELECT count(*) FROM inference_batches_batchrequest"
GOOD: dict[str, Any] = {"model": "talker", "requests": [{"id": "a", "prompt": "speak"}]}


def requests(*more: dict[str, Any]) -> dict[str, Any]:
    return GOOD | {"requests": [{"id": str(place), "prompt": "speak"} | one for place, one in enumerate(more)]}


def test_a_submitted_batch_is_processing(stoa: RunningServer):
    answer = stoa.post("/batch", GOOD)
    accepted = answer.json()

    assert answer.status_code == 200
    assert accepted.keys() == {"batch_id", "status", "total_requests", "created"}
    assert accepted["batch_id"].startswith("batch_")
    assert (accepted["status"], accepted["total_requests"]) == ("processing", 1)
    now = get_status(stoa, accepted["batch_id"])
    assert (now["status"], now["completed"], now["failed"], now["total"]) == ("processing", 0, 0, 1)
    assert now["results_url"] == f"/batch/{accepted['batch_id']}/results"
    assert now["ended"] is None


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"requests": GOOD["requests"]}, "`model` is required"),
        ({"model": "talker"}, "`requests` is required"),
        (GOOD | {"requests": []}, "1 to 50000"),
        (GOOD | {"requests": {}}, "array of requests"),
        (GOOD | {"requests": ["speak"]}, "requests[0]"),
        (GOOD | {"max_token": 5}, "`max_token` is not a field"),
        (GOOD | {"stream": True}, "`stream` is not a field"),
        (GOOD | {"temperature": 3}, "`temperature` must be a number from 0 to 2, not 3."),
        (GOOD | {"top_logprobs": 3}, "`top_logprobs` needs `logprobs`"),
        (GOOD | {"webhook_url": 5}, "`webhook_url` is not valid"),
        (requests({}, {"id": "0"}), "requests[1]: `id` must be unique"),
        (requests({}, {"model": "talker"}), "requests[1]: `model` is not a field"),
        (requests({}, {"id": 1}), "requests[1]: `id` is not valid"),
        (requests({}, {"id": ""}), "requests[1]: `id` is not valid"),
        (requests({}, {"id": "x" * 257}), "requests[1]: `id` is not valid"),
        (requests({}, {"prompt": None}), "requests[1]: `prompt` is not valid"),
        (requests({}, {"max_tokens": 0}), "requests[1]: `max_tokens` must be an integer from 1 to 2147483647, not 0."),
        (requests({}, {"top_logprobs": 3}), "requests[1]: `top_logprobs` needs `logprobs`"),
        (requests({}, {"prompt": "\x00"}), "requests[1]: A string in the body holds a NUL"),
    ],
)
def test_b6_an_invalid_body_is_refused_by_field_and_stores_nothing(
    stoa: RunningServer, body: dict[str, Any], named: str
):
    before = query_database(stoa, BATCHES)

    answer = stoa.post("/batch", body)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "INVALID_REQUEST"
    assert named in answer.json()["error"]["message"]
    assert query_database(stoa, BATCHES) == before


@pytest.mark.timeout(600)
def test_b6_randomly_broken_bodies_store_nothing(stoa: RunningServer, whole: bool):
    rng = random.Random(6)
    text = json.dumps(requests({}, {"max_tokens": 3}, {"stop": ["."]})).encode()
    before = query_database(stoa, BATCHES), query_database(stoa, REQUESTS)
    wrong = [
        b"",
        b"[]",
        b"null",
        b"{" * 200,
        text[:-1],
        text * 2,
        b'{"requests":[], ' + text[1:],
        text.replace(b"id", b"ID"),
    ]
    while len(wrong) < (1000 if whole else 60):
        at = rng.randrange(len(text))
        wrong.append(text[:at] + bytes([rng.choice(b'{}[]",:\x00\xff')]) + text[at:])
    accepted = 0
    with httpx2.Client(base_url=stoa.url, headers=stoa.headers() | {"Content-Type": "application/json"}) as client:
        for body in wrong:
            answer = client.post("/batch", content=body, timeout=60)
            assert answer.status_code in (200, 400, 404), body
            accepted += answer.status_code == 200

    assert query_database(stoa, BATCHES) == [before[0][0] + accepted]  # a break inside a string leaves a valid body
    assert query_database(stoa, REQUESTS) == [before[1][0] + 3 * accepted]


def test_an_unknown_model_is_refused_at_submission(stoa: RunningServer):
    answer = stoa.post("/batch", GOOD | {"model": "nobody"})

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "MODEL_NOT_FOUND"


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "one large batch"}])
def test_a_batch_body_may_be_larger_than_other_bodies(stoa: RunningServer, key: dict[str, str]):
    body = json.dumps(requests(*({"prompt": "x" * 30_000} for _ in range(400)))).encode()
    headers = stoa.headers("STAFF") | key | {"Content-Type": "application/json"}
    answer = httpx2.post(f"{stoa.url}/batch", content=body, headers=headers, timeout=100)

    assert answer.status_code == 200, answer.text
    assert answer.json()["total_requests"] == 400
    other = httpx2.post(f"{stoa.url}/inference", content=body, headers=headers, timeout=100)
    assert other.status_code == 413


def test_a_priority_above_0_needs_permission_to_manage_models(stoa: RunningServer):
    body = requests({}, {"priority": 3})

    assert stoa.post("/batch", body, role="STAFF").status_code == 403
    assert stoa.post("/batch", body).status_code == 200
    assert stoa.post("/batch", requests({"priority": -3}), role="STAFF").status_code == 200


@pytest.mark.timeout(300)
def test_b4_concurrent_requests_with_one_idempotency_key_create_one_batch(stoa: RunningServer):
    before = query_database(stoa, BATCHES)[0]
    headers = stoa.headers() | {"Idempotency-Key": "b4"}

    def post(body: dict[str, Any]) -> httpx2.Response:
        while (answer := httpx2.post(f"{stoa.url}/batch", json=body, headers=headers, timeout=120)).status_code == 409:
            assert "Retry-After" in answer.headers
        return answer

    with ThreadPoolExecutor(50) as clients:
        answers = list(clients.map(post, [GOOD] * 50))
    other = post(GOOD | {"max_tokens": 7})

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert [answer.headers.get("Idempotent-Replayed") for answer in answers].count("true") == 49
    assert query_database(stoa, BATCHES) == [before + 1]
    assert other.status_code == 400
    assert other.json()["error"]["code"] == "INVALID_REQUEST"


@pytest.mark.parametrize("path", ["", "/results", "/cancel"])
def test_b11_another_users_batch_is_not_found(stoa: RunningServer, path: str):
    batch_id = submit_batch(stoa, "speak")
    method = "POST" if path == "/cancel" else "GET"

    for requested_id in (batch_id, "batch_0", "%20"):
        answer = httpx2.request(
            method, f"{stoa.url}/batch/{requested_id}{path}", headers=stoa.headers("STAFF"), timeout=30
        )
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "INVALID_REQUEST"
    assert batch_id not in stoa.get("/batch?limit=100", role="STAFF").text
    assert get_status(stoa, batch_id)["status"] == "processing"


def test_batches_are_listed_in_pages_newest_first(stoa: RunningServer):
    def list_page(query: str) -> dict[str, Any]:
        return dict(stoa.get(f"/batch?{query}", role="STORE_OWNER").json())

    def ids(page: dict[str, Any]) -> list[str]:
        return [batch["batch_id"] for batch in page["batches"]]

    others = ids(list_page("limit=100"))
    created = [stoa.post("/batch", GOOD, role="STORE_OWNER").json()["batch_id"] for _ in range(3)]
    stoa.post(f"/batch/{created[1]}/cancel", role="STORE_OWNER")

    first = list_page("limit=2")
    assert ids(first) == created[:0:-1]
    second = list_page(f"limit=100&after={first['next']}")
    assert ids(second) == [created[0], *others]
    assert second["next"] is None
    assert ids(list_page("status=cancelled"))[:1] == [created[1]]
    assert stoa.get("/batch?limit=0", role="STORE_OWNER").status_code == 400
    assert stoa.get("/batch?after=batch_0", role="STORE_OWNER").status_code == 404
