"""The routes of batches: what they take and refuse, and to whom they tell what."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.inference.batches.workers import (
    all_results,
    ended,
    running_worker,
    status,
    stored,
    submit,
)
from tests.inference.served import ServedStoa

BATCHES = "SELECT count(*) FROM inference_batches_batch"
REQUESTS = "SELECT count(*) FROM inference_batches_batchrequest"
GOOD: dict[str, Any] = {"model": "talker", "requests": [{"id": "a", "prompt": "speak"}]}


def requests(*more: dict[str, Any]) -> dict[str, Any]:
    return GOOD | {"requests": [{"id": str(place), "prompt": "speak"} | one for place, one in enumerate(more)]}


def test_a_batch_is_accepted_at_once_and_waits_for_a_worker(stoa: ServedStoa):
    answer = stoa.post("/batch", GOOD)
    told = answer.json()

    assert answer.status_code == 200
    assert told.keys() == {"batch_id", "status", "total_requests", "created"}
    assert told["batch_id"].startswith("batch_")
    assert (told["status"], told["total_requests"]) == ("processing", 1)
    now = status(stoa, told["batch_id"])
    assert (now["status"], now["completed"], now["failed"], now["total"]) == ("processing", 0, 0, 1)
    assert now["results_url"] == f"/batch/{told['batch_id']}/results"
    assert now["ended"] is None


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"requests": GOOD["requests"]}, "model is required"),
        ({"model": "talker"}, "requests is required"),
        (GOOD | {"requests": []}, "1 to 50000"),
        (GOOD | {"requests": {}}, "array of requests"),
        (GOOD | {"requests": ["speak"]}, "requests[0]"),
        (GOOD | {"max_token": 5}, "max_token is not a field"),
        (GOOD | {"stream": True}, "stream is not a field"),
        (GOOD | {"temperature": 3}, "temperature is wrong"),
        (GOOD | {"top_logprobs": 3}, "top_logprobs needs logprobs"),
        (GOOD | {"webhook_url": 5}, "webhook_url is wrong"),
        (requests({}, {"id": "0"}), "requests[1].id is that of another"),
        (requests({}, {"model": "talker"}), "requests[1]: model is not a field"),
        (requests({}, {"id": 1}), "requests[1]: id is wrong"),
        (requests({}, {"id": ""}), "requests[1]: id is wrong"),
        (requests({}, {"id": "x" * 257}), "requests[1]: id is wrong"),
        (requests({}, {"prompt": None}), "requests[1]: prompt is wrong"),
        (requests({}, {"max_tokens": 0}), "requests[1]: max_tokens is wrong"),
        (requests({}, {"top_logprobs": 3}), "requests[1]: top_logprobs needs logprobs"),
        (requests({}, {"prompt": "\x00"}), "requests[1]: A string in the body holds a NUL"),
    ],
)
def test_b6_a_body_that_is_wrong_is_refused_by_name_and_nothing_is_kept(
    stoa: ServedStoa, body: dict[str, Any], named: str
):
    before = stored(stoa, BATCHES)

    answer = stoa.post("/batch", body)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "INVALID_REQUEST"
    assert named in answer.json()["error"]["message"]
    assert stored(stoa, BATCHES) == before


@pytest.mark.timeout(600)
def test_b6_of_bodies_that_are_broken_at_random_nothing_is_kept(stoa: ServedStoa, whole: bool):
    dice = random.Random(6)
    text = json.dumps(requests({}, {"max_tokens": 3}, {"stop": ["."]})).encode()
    before = stored(stoa, BATCHES), stored(stoa, REQUESTS)
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
        at = dice.randrange(len(text))
        wrong.append(text[:at] + bytes([dice.choice(b'{}[]",:\x00\xff')]) + text[at:])
    accepted = 0
    with httpx2.Client(base_url=stoa.url, headers=stoa.headers() | {"Content-Type": "application/json"}) as client:
        for body in wrong:
            answer = client.post("/batch", content=body, timeout=60)
            assert answer.status_code in (200, 400, 404), body
            accepted += answer.status_code == 200

    assert stored(stoa, BATCHES) == [before[0][0] + accepted]  # some breaks are inside a string
    assert stored(stoa, REQUESTS) == [before[1][0] + 3 * accepted]


def test_a_model_that_is_not_there_is_told_at_once(stoa: ServedStoa):
    answer = stoa.post("/batch", GOOD | {"model": "nobody"})

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "MODEL_NOT_FOUND"


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "one large batch"}])
def test_a_batch_may_be_longer_than_other_bodies(stoa: ServedStoa, key: dict[str, str]):
    body = json.dumps(requests(*({"prompt": "x" * 30_000} for _ in range(400)))).encode()
    headers = stoa.headers("STAFF") | key | {"Content-Type": "application/json"}
    answer = httpx2.post(f"{stoa.url}/batch", content=body, headers=headers, timeout=100)

    assert answer.status_code == 200, answer.text
    assert answer.json()["total_requests"] == 400
    other = httpx2.post(f"{stoa.url}/inference", content=body, headers=headers, timeout=100)
    assert other.status_code == 413


def test_a_priority_above_0_needs_the_right_to_manage_models(stoa: ServedStoa):
    asked = requests({}, {"priority": 3})

    assert stoa.post("/batch", asked, role="STAFF").status_code == 403
    assert stoa.post("/batch", asked).status_code == 200
    assert stoa.post("/batch", requests({"priority": -3}), role="STAFF").status_code == 200


@pytest.mark.timeout(300)
def test_b4_the_same_key_makes_one_batch_however_often_and_at_once_it_comes(stoa: ServedStoa):
    before = stored(stoa, BATCHES)[0]
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
    assert stored(stoa, BATCHES) == [before + 1]
    assert other.status_code == 400
    assert other.json()["error"]["code"] == "INVALID_REQUEST"


@pytest.mark.timeout(300)
def test_b5_requests_that_are_too_long_fail_and_the_others_do_not(stoa: ServedStoa):
    prompts = ["long" if place % 20 == 7 else "speak" for place in range(200)]
    batch_id = submit(stoa, *prompts)
    with running_worker(stoa):
        told = ended(stoa, batch_id)

    results = all_results(stoa, batch_id)
    failed = [result for result in results if result["status"] == "failed"]
    assert (told["status"], told["completed"], told["failed"]) == ("completed", 190, 10)
    assert [result["id"] for result in results] == [f"r{place}" for place in range(200)]
    assert [result["index"] for result in failed] == list(range(7, 200, 20))
    assert {result["error"]["code"] for result in failed} == {"CONTEXT_LENGTH_EXCEEDED"}
    assert {(result["choices"], result["usage"]) for result in failed} == {(None, None)}


@pytest.mark.parametrize("path", ["", "/results", "/cancel"])
def test_b11_another_users_batch_is_not_there(stoa: ServedStoa, path: str):
    batch_id = submit(stoa, "speak")
    method = "POST" if path == "/cancel" else "GET"

    for asked in (batch_id, "batch_0", "%20"):
        answer = httpx2.request(method, f"{stoa.url}/batch/{asked}{path}", headers=stoa.headers("STAFF"), timeout=30)
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "INVALID_REQUEST"
    assert batch_id not in stoa.get("/batch?limit=100", role="STAFF").text
    assert status(stoa, batch_id)["status"] == "processing"


def test_batches_are_listed_newest_first_page_by_page(stoa: ServedStoa):
    def listed(query: str) -> dict[str, Any]:
        return dict(stoa.get(f"/batch?{query}", role="STORE_OWNER").json())

    def ids(page: dict[str, Any]) -> list[str]:
        return [batch["batch_id"] for batch in page["batches"]]

    others = ids(listed("limit=100"))
    made = [stoa.post("/batch", GOOD, role="STORE_OWNER").json()["batch_id"] for _ in range(3)]
    stoa.post(f"/batch/{made[1]}/cancel", role="STORE_OWNER")

    first = listed("limit=2")
    assert ids(first) == made[:0:-1]
    second = listed(f"limit=100&after={first['next']}")
    assert ids(second) == [made[0], *others]
    assert second["next"] is None
    assert ids(listed("status=cancelled"))[:1] == [made[1]]
    assert stoa.get("/batch?limit=0", role="STORE_OWNER").status_code == 400
    assert stoa.get("/batch?after=batch_0", role="STORE_OWNER").status_code == 404


@pytest.mark.timeout(300)
def test_a_cancelled_batch_keeps_what_is_done(stoa: ServedStoa):
    batch_id = submit(stoa, *["speak"] * 2000)
    with running_worker(stoa):
        while status(stoa, batch_id)["completed"] == 0:
            pass
        told = stoa.post(f"/batch/{batch_id}/cancel").json()
    done = told["completed"]

    assert told["status"] == "cancelled"
    assert 0 < done < 2000
    assert len(all_results(stoa, batch_id)) == done
    assert stoa.post(f"/batch/{batch_id}/cancel").json() == told
    assert status(stoa, batch_id) == told


@pytest.mark.timeout(300)
def test_results_follow_live_as_events_and_resume_where_a_client_left(stoa: ServedStoa):
    batch_id = submit(stoa, *["speak"] * 300)
    url, headers = f"{stoa.url}/batch/{batch_id}/results", stoa.headers() | {"Accept": "text/event-stream"}
    with running_worker(stoa):
        seen = []
        with httpx2.stream("GET", url, headers=headers, timeout=120) as events:
            assert events.headers["content-type"] == "text/event-stream"
            for line in events.iter_lines():
                if line.startswith("id: "):
                    seen.append(int(line[4:]))
                if len(seen) == 100:
                    break
        rest, data = [], []
        with httpx2.stream("GET", url, headers=headers | {"Last-Event-ID": "99"}, timeout=120) as events:
            for line in events.iter_lines():
                if line.startswith("id: "):
                    rest.append(int(line[4:]))
                elif line.startswith("data: "):
                    data.append(json.loads(line[6:]))

    assert seen == list(range(100))
    assert rest == list(range(100, 300))
    assert [result["id"] for result in data[:-1]] == [f"r{place}" for place in range(100, 300)]
    assert data[-1] == {"done": True, "status": "completed", "total": 300, "completed": 300, "failed": 0}
    assert stoa.get(f"/batch/{batch_id}/results?limit=7").json()["next"] == 6
    wrong = httpx2.get(url, headers=headers | {"Last-Event-ID": "x"}, timeout=30)
    assert wrong.status_code == 400


@pytest.mark.timeout(300)
def test_results_are_lines_for_who_asks_for_lines(stoa: ServedStoa):
    batch_id = submit(stoa, *["speak"] * 1200, max_tokens=1)
    with running_worker(stoa):
        ended(stoa, batch_id)
    headers = stoa.headers() | {"Accept": "application/x-ndjson"}
    answer = httpx2.get(f"{stoa.url}/batch/{batch_id}/results?after=99", headers=headers, timeout=60)
    lines = [json.loads(line) for line in answer.text.splitlines()]

    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [line["index"] for line in lines] == list(range(100, 1200))
    assert lines == all_results(stoa, batch_id)[100:]


def test_each_request_may_override_the_batchs_parameters(stoa: ServedStoa):
    asked = requests({}, {"max_tokens": 2}, {"prompt": "introduce", "n": 2, "max_tokens": 1, "priority": -4})
    batch_id = stoa.post("/batch", asked | {"max_tokens": 3, "timeout": 50}).json()["batch_id"]
    with running_worker(stoa):
        ended(stoa, batch_id)
    three, two, introduced = all_results(stoa, batch_id)

    assert three["choices"][0]["text"] == "w0 w1 w2 "
    assert two["choices"][0]["text"] == "w0 w1 "
    assert [choice["index"] for choice in introduced["choices"]] == [0, 1]
    assert "n=2 timeout=50.0 priority=-4" in introduced["choices"][0]["text"]
