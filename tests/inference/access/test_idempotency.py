"""Requests with an Idempotency-Key are carried out once."""

import asyncio
import threading
import time
import uuid
from collections import Counter
from typing import Any

import httpx2
import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from inference.access.idempotency import run_idempotently
from shared.accounts.authentication import Principal
from shared.accounts.middleware.idempotency import KeyedPost
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.models import KeyedRequest
from shared.serving.db_threads import run_in_db_thread
from tests.inference.engine.processes import eventually_idle
from tests.inference.running_server import RunningServer, wait_until_generating

BODY = {"model": "talker", "prompt": "speak", "max_tokens": 3}
CHAT = {"model": "talker", "messages": [{"role": "user", "content": "x"}], "max_tokens": 2}
EMBED = {"model": "embedder", "input": "x"}
RERANK = {"model": "embedder", "query": "x", "documents": ["y"]}
POSTS = [
    ("/inference", BODY),
    ("/v1/chat/completions", CHAT),
    ("/v1/completions", BODY),
    ("/embeddings", EMBED),
    ("/v1/embeddings", EMBED),
    ("/rerank", RERANK),
    ("/v1/rerank", RERANK),
    ("/v2/rerank", RERANK),
    ("/v1/moderations", {"model": "talker", "input": "x"}),
    ("/v1/decisions", {"model": "talker", "input": "x", "questions": [{"type": "predicate", "instructions": "y"}]}),
    ("/score", {"model": "embedder", "text_1": "x", "text_2": "y"}),
    ("/models/talker/load", {}),
]


def new_key() -> str:
    return f"key-{uuid.uuid4()}"


def post(
    stoa: RunningServer,
    path: str,
    body: object,
    key: str,
    role: str = "SUPER_ADMIN",
    last_event_id: str | None = None,
) -> httpx2.Response:
    headers = stoa.headers(role) | {"Idempotency-Key": key}
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    return httpx2.post(stoa.url + path, json=body, headers=headers, timeout=60)


def parse_body(answer: httpx2.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(("path", "body"), POSTS, ids=[path for path, _ in POSTS])
def test_a_repeated_request_returns_the_first_response(stoa: RunningServer, path: str, body: object):
    key = new_key()
    first, second = post(stoa, path, body, key), post(stoa, path, body, key)

    assert first.status_code == second.status_code == 200, first.text
    assert first.content == second.content
    assert second.headers["content-type"] == "application/json"
    assert (first.headers.get("idempotent-replayed"), second.headers["idempotent-replayed"]) == (None, "true")
    assert int(second.headers["x-ratelimit-remaining"]) == int(first.headers["x-ratelimit-remaining"]) - 1


def test_another_key_route_or_user_has_a_response_of_its_own(stoa: RunningServer):
    key = new_key()
    ids = [
        parse_body(post(stoa, "/inference", BODY, key))["id"],
        parse_body(post(stoa, "/inference", BODY, new_key()))["id"],
        parse_body(post(stoa, "/inference", BODY, key, "STAFF"))["id"],
        parse_body(post(stoa, "/v1/completions", BODY, key))["id"],
        parse_body(post(stoa, "/inference", BODY, key))["id"],
    ]
    assert len(set(ids)) == 4
    assert ids[-1] == ids[0]


def test_another_body_with_the_same_key_is_rejected(stoa: RunningServer):
    key = new_key()
    assert post(stoa, "/inference", BODY, key).status_code == 200
    refused = post(stoa, "/inference", BODY | {"max_tokens": 4}, key)

    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert "another body" in refused.json()["error"]["message"]
    openai = post(stoa, "/v1/completions", BODY, key)
    assert openai.status_code == 200
    assert "another body" in post(stoa, "/v1/completions", CHAT, key).json()["error"]["message"]


@pytest.mark.parametrize("key", ["", "k" * 256, "\u00e9".encode().decode("latin-1")])
def test_an_invalid_key_is_rejected(stoa: RunningServer, key: str):
    headers = {b"authorization": stoa.headers()["Authorization"].encode(), b"idempotency-key": key.encode("latin-1")}
    answer = httpx2.post(f"{stoa.url}/inference", json=BODY, headers=headers, timeout=30)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/inference", BODY | {"stream": True}),
        ("/inference/stream", BODY),
        ("/v1/chat/completions", CHAT | {"stream": True}),
        ("/v1/completions", BODY | {"stream": True}),
    ],
)
def test_p1_a_stream_with_a_key_is_sent_again_from_any_event(stoa: RunningServer, path: str, body: object):
    key = new_key()
    first = post(stoa, path, body, key)
    events = first.text.removesuffix("\n\n").split("\n\n")
    assert first.headers["content-type"] == "text/event-stream"
    assert [event.split("\n")[0] for event in events] == [f"id: {number}" for number in range(len(events))]

    assert post(stoa, path, body, key).text == first.text
    for last in (0, 1, len(events) - 2):
        rest = post(stoa, path, body, key, last_event_id=str(last))
        assert rest.text == "".join(f"{event}\n\n" for event in events[last + 1 :])


def test_p3_a_stream_is_not_resumed_by_others_with_another_body_or_at_a_wrong_event(stoa: RunningServer):
    key, body = new_key(), BODY
    count = post(stoa, "/inference/stream", body, key).text.count("id: ")

    def status(last: str, sent: object = body, role: str = "SUPER_ADMIN", sent_key: str = key) -> int:
        return post(stoa, "/inference/stream", sent, sent_key, role, last_event_id=last).status_code

    assert status(str(count - 1)) == 200
    assert [status(wrong) for wrong in (str(count), "-1", "x", "9999999999")] == [400] * 4
    assert status("0", sent=BODY | {"max_tokens": 4}) == 400
    assert status("0", role="STAFF") == 404
    assert status("0", sent_key=new_key()) == 404


def test_an_error_is_not_stored(stoa: RunningServer):
    key = new_key()
    body = BODY | {"model": "nobody"}
    assert [post(stoa, "/inference", body, key).status_code for _ in range(2)] == [404, 404]
    assert post(stoa, "/inference", BODY, key).status_code == 200


async def test_b4_fifty_concurrent_requests_with_one_key_generate_once(stoa: RunningServer):
    async with stoa.client() as client:
        headers = {"Idempotency-Key": new_key()}
        before = await requests_of(client)
        body = BODY | {"max_tokens": 50}
        answers = await asyncio.gather(*(client.post("/inference", json=body, headers=headers) for _ in range(50)))
        assert {answer.status_code for answer in answers} <= {200, 409}
        assert len({answer.json()["id"] for answer in answers if answer.status_code == 200}) == 1
        again = await client.post("/inference", json=body, headers=headers)
        assert again.json()["id"] in {answer.json().get("id") for answer in answers}
        assert (
            Counter(answer.headers.get("idempotent-replayed") for answer in answers if answer.status_code == 200)[None]
            == 1
        )
        assert await requests_of(client) == before + 1


async def test_requests_during_the_first_one_are_409(stoa: RunningServer):
    async with stoa.client() as client:
        headers = {"Idempotency-Key": new_key()}
        body = BODY | {"max_tokens": 3000}
        running = asyncio.create_task(client.post("/inference", json=body, headers=headers))
        await wait_until_generating(stoa, "talker")
        second = await client.post("/inference", json=body, headers=headers)
        assert (second.status_code, second.headers["retry-after"]) == (409, "5")
        other = await client.post("/inference", json=BODY, headers=headers)
        assert other.status_code == 400
        running.cancel()
        await asyncio.wait({running})
    await eventually_idle(stoa.engine, "talker", seconds=10)
    await stoa.engine.close()


async def test_a_key_is_free_again_once_its_client_disconnects(stoa: RunningServer):
    async with stoa.client() as client:
        headers = {"Idempotency-Key": new_key()}
        body = BODY | {"max_tokens": 300}
        running = asyncio.create_task(client.post("/inference", json=body, headers=headers))
        await wait_until_generating(stoa, "talker")
        running.cancel()
        await asyncio.wait({running})
        again = await client.post("/inference", json=body, headers=headers)
        assert again.json()["usage"]["completion_tokens"] == 300
    await stoa.engine.close()


@pytest.mark.django_db(transaction=True)
async def test_a_key_that_is_claimed_after_its_client_left_is_free_again(monkeypatch: pytest.MonkeyPatch):
    user = await run_in_db_thread(User.objects.create, email="a@example.com", role=Role.STAFF)
    request = RequestFactory().post("/inference", b"{}", "application/json", headers={"Idempotency-Key": "key"})
    keyed = KeyedPost(request, Principal(user=user, permissions=frozenset()))
    is_claiming, may_claim, has_claimed = (threading.Event() for _ in range(3))
    claim = keyed.claim

    def claim_late() -> KeyedRequest | None:
        is_claiming.set()
        may_claim.wait(60)
        row = claim()
        has_claimed.set()
        return row

    async def run() -> HttpResponse:
        raise AssertionError("the client has left")

    monkeypatch.setattr(keyed, "claim", claim_late)
    running = asyncio.create_task(run_idempotently(keyed, run))
    assert await asyncio.to_thread(is_claiming.wait, 60)
    running.cancel()
    await asyncio.wait({running})
    may_claim.set()
    assert await asyncio.to_thread(has_claimed.wait, 60)
    deadline = time.monotonic() + 30
    while await run_in_db_thread(KeyedRequest.objects.exists):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def requests_of(client: httpx2.AsyncClient) -> int:
    answer = await client.get("/usage")
    counted: int = answer.json()["total"]["requests"]
    return counted
