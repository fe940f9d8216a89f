"""Rows I2 and I7 on every route: JSON that a database cannot store, and invalid ids, numbers and cursors."""

import json
from collections.abc import Iterator
from urllib.parse import quote

import httpx2
import pytest

from tests.inference.access.test_route_matrix import TABLE
from tests.inference.running_server import PASSWORD, RunningServer
from tests.shared.api.test_parsers import REFUSED

pytestmark = pytest.mark.timeout(300)

WRITES = [(method, route) for method, route, _, _ in TABLE if method in ("POST", "PATCH")]
NAMED = [(method, route) for method, route, _, _ in TABLE if "{}" in route]
LISTS = [
    "/batch", "/batch/nobody/results", "/v1/batches", "/v1/files", "/traces", "/usage", "/webhooks/nobody/deliveries",
]  # fmt: skip
NO_IDS = ["0", "-1", str(2**31), str(2**63), str(10**30), "9" * 5000, "1.5", "1e3", "٣", "%00", "%ff", "..", "null"]
NO_BODY = "nothing"  # the same as an empty object


@pytest.fixture(scope="module")
def client(stoa: RunningServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=stoa.url, headers=stoa.headers(), timeout=60) as client:
        yield client


def nobody(route: str, name: str = "nobody") -> str:
    return route.replace("{}", quote(name, safe="%"))


@pytest.mark.parametrize(("method", "route"), WRITES, ids=[" ".join(row) for row in WRITES])
def test_i2_no_route_accepts_json_that_a_database_cannot_store(client: httpx2.Client, method: str, route: str):
    got = {}
    for name, body in REFUSED.items():
        if name != NO_BODY:
            headers = {"Content-Type": "application/json"}
            answer = client.request(method, nobody(route), content=body, headers=headers)
            error = "message" if route.startswith("/v2/") else "error"
            assert answer.json().keys() >= {error, "request_id"}, name
            got[name] = answer.status_code
    assert set(got.values()) <= {400, 404, 413, 415}, got


@pytest.mark.parametrize(("method", "route"), WRITES, ids=[" ".join(row) for row in WRITES])
def test_i2_no_route_accepts_an_unknown_encoding(client: httpx2.Client, method: str, route: str):
    headers = {"Content-Type": "application/json; charset=nope"}
    answer = client.request(method, nobody(route), content=b"{}", headers=headers)
    assert answer.status_code in (400, 404, 415), answer.text


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/inference", {"model": "talker", "prompt": "speak", "max_tokens": 1}),
        ("/inference/stream", {"model": "talker", "prompt": "speak", "max_tokens": 1}),
        ("/embeddings", {"model": "embedder", "input": "a"}),
        ("/v1/chat/completions", {"model": "talker", "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}),
        ("/v1/completions", {"model": "talker", "prompt": "speak", "max_tokens": 1}),
        ("/v1/embeddings", {"model": "embedder", "input": "a"}),
        ("/rerank", {"model": "embedder", "query": "a", "documents": ["b"]}),
        ("/v1/rerank", {"model": "embedder", "query": "a", "documents": ["b"]}),
        ("/v2/rerank", {"model": "embedder", "query": "a", "documents": ["b"]}),
        ("/score", {"model": "embedder", "text_1": "a", "text_2": "b"}),
        ("/v1/moderations", {"model": "talker", "input": "a"}),
        (
            "/v1/decisions",
            {"model": "talker", "input": "a", "questions": [{"type": "predicate", "instructions": "b"}]},
        ),
        ("/tokenize", {"model": "talker", "prompt": "a"}),
        ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        ("/models/talker/load", {}),
        ("/batch", {"model": "talker", "requests": [{"id": "a", "prompt": "speak"}], "max_tokens": 1}),
        ("/auth/login", {"username": "staff@example.com", "password": PASSWORD}),
    ],
)
def test_i2_a_valid_body_is_accepted_in_utf_8_only(client: httpx2.Client, route: str, body: dict[str, object]):
    told = {}
    for charset in ("nope", "latin-1", "UTF-8", '"utf-8"'):
        headers = {"Content-Type": f"application/json; charset={charset}"}
        told[charset] = client.post(route, content=json.dumps(body), headers=headers)
    assert [answer.status_code for answer in told.values()] == [400, 400, 200, 200]
    error = told["nope"].json()
    assert "UTF-8" in error.get("error", error)["message"]


@pytest.mark.parametrize(("method", "route"), NAMED, ids=[" ".join(row) for row in NAMED])
def test_i7_an_invalid_id_is_never_a_server_error(client: httpx2.Client, method: str, route: str):
    for name in NO_IDS:
        body = None if method in ("GET", "DELETE") else {}
        answer = client.request(method, nobody(route, name), json=body)
        allowed = (
            (200,) if answer.url.path == "/" and method == "GET" else (400, 404, 405, 415)
        )  # the page at /, by `..`
        assert answer.status_code in allowed, (name, answer.text)
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("route", LISTS)
def test_i7_an_invalid_number_or_cursor_is_never_a_server_error(client: httpx2.Client, route: str):
    for number in NO_IDS:
        for parameter in ("limit", "after", "order", "since", "days", "status"):
            answer = client.get(f"{route}?{parameter}={quote(number, safe='%')}")
            assert answer.status_code in (200, 400, 404), (parameter, number, answer.text)
