"""Row A9: every route of the model server with every method for every kind of caller.

A route that is not in the table fails the test.
"""

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver

from tests.inference.running_server import PASSWORD, RunningServer

pytestmark = pytest.mark.no_database

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PAGES = ("/playground",)  # Django checks the CSRF token before the method
ADMIN_PAGES = ("/admin", "/admin/", "/admin/health/")  # with a session, which Django's admin guards (row X2)

# SESSION is an access token of staff; READER is a super admin's key with `read_models` only.
KNOWN = frozenset({"CUSTOMER", "STAFF", "STORE_OWNER", "SUPER_ADMIN", "SESSION", "READER"})
IDENTITIES = ("NOBODY", "MADE_UP", *sorted(KNOWN))
ANYBODY = frozenset(IDENTITIES)
USERS = frozenset({"STAFF", "STORE_OWNER", "SUPER_ADMIN", "SESSION"})
READERS = USERS | {"READER"}
ADMIN = frozenset({"SUPER_ADMIN"})

# Method, route, allowed callers and their status: bodies are empty, and ids do not exist.
TABLE: list[tuple[str, str, frozenset[str], int]] = [
    ("GET", "/health", ANYBODY, 200),
    ("GET", "/livez", ANYBODY, 200),
    ("GET", "/readyz", ANYBODY, 200),
    ("GET", "/asyncapi.json", ANYBODY, 200),
    ("GET", "/openapi.json", ANYBODY, 200),
    ("GET", "/schema", ANYBODY, 200),
    ("GET", "/docs", ANYBODY, 200),
    ("GET", "/playground", ANYBODY, 200),
    ("POST", "/auth/login", ANYBODY, 400),
    ("GET", "/models", READERS, 200),
    ("POST", "/models/{}/load", ADMIN, 404),
    ("POST", "/models/{}/unload", ADMIN, 404),
    ("GET", "/v1/models", READERS, 200),
    ("GET", "/v1/models/{}", READERS, 404),
    ("POST", "/inference", USERS, 400),
    ("POST", "/inference/stream", USERS, 400),
    ("POST", "/v1/chat/completions", USERS, 400),
    ("POST", "/v1/completions", USERS, 400),
    ("POST", "/v1/responses", USERS, 400),
    ("POST", "/v1/responses/input_tokens", USERS, 400),
    ("POST", "/v1/responses/compact", USERS, 400),
    ("GET", "/v1/responses/{}", USERS, 404),
    ("DELETE", "/v1/responses/{}", USERS, 404),
    ("POST", "/v1/responses/{}/cancel", USERS, 404),
    ("GET", "/v1/responses/{}/input_items", USERS, 404),
    ("POST", "/v1/conversations", USERS, 200),
    ("GET", "/v1/conversations/{}", USERS, 404),
    ("POST", "/v1/conversations/{}", USERS, 400),
    ("DELETE", "/v1/conversations/{}", USERS, 404),
    ("GET", "/v1/conversations/{}/items", USERS, 404),
    ("POST", "/v1/conversations/{}/items", USERS, 400),
    ("GET", "/v1/conversations/{}/items/{}", USERS, 404),
    ("DELETE", "/v1/conversations/{}/items/{}", USERS, 404),
    ("POST", "/embeddings", USERS, 400),
    ("POST", "/v1/embeddings", USERS, 400),
    ("POST", "/rerank", USERS, 400),
    ("POST", "/v1/rerank", USERS, 400),
    ("POST", "/v2/rerank", USERS, 400),
    ("POST", "/score", USERS, 400),
    ("POST", "/v1/decisions", USERS, 400),
    ("POST", "/v1/moderations", USERS, 400),
    ("POST", "/tokenize", USERS, 400),
    ("POST", "/detokenize", USERS, 400),
    ("GET", "/usage", USERS, 200),
    ("GET", "/traces", ADMIN, 200),
    ("GET", "/metrics", ADMIN, 200),
    ("POST", "/metrics/custom", ADMIN, 400),
    ("GET", "/batch", USERS, 200),
    ("POST", "/batch", USERS, 400),
    ("GET", "/batch/{}", USERS, 404),
    ("GET", "/batch/{}/results", USERS, 404),
    ("POST", "/batch/{}/cancel", USERS, 404),
    ("GET", "/v1/batches", USERS, 200),
    ("POST", "/v1/batches", USERS, 400),
    ("GET", "/v1/batches/{}", USERS, 404),
    ("POST", "/v1/batches/{}/cancel", USERS, 404),
    ("GET", "/v1/files", USERS, 200),
    ("POST", "/v1/files", USERS, 415),
    ("GET", "/v1/files/{}", USERS, 404),
    ("DELETE", "/v1/files/{}", USERS, 404),
    ("GET", "/v1/files/{}/content", USERS, 404),
    ("POST", "/v1/uploads", USERS, 400),
    ("GET", "/v1/uploads/{}", USERS, 404),
    ("POST", "/v1/uploads/{}/parts", USERS, 415),
    ("POST", "/v1/uploads/{}/complete", USERS, 400),
    ("POST", "/v1/uploads/{}/cancel", USERS, 404),
    ("POST", "/v1/messages", USERS, 400),
    ("POST", "/v1/messages/count_tokens", USERS, 400),
    ("POST", "/api/chat", USERS, 400),
    ("POST", "/api/generate", USERS, 400),
    ("POST", "/api/embed", USERS, 400),
    ("POST", "/api/show", READERS, 400),
    ("GET", "/api/tags", READERS, 200),
    ("GET", "/api/ps", READERS, 200),
    ("GET", "/api/version", ANYBODY, 200),
    ("POST", "/mcp", USERS, 400),
    ("GET", "/", ANYBODY, 200),
    ("GET", "/webhooks", USERS, 200),
    ("POST", "/webhooks", USERS, 400),
    ("GET", "/webhooks/{}", USERS, 404),
    ("PATCH", "/webhooks/{}", USERS, 404),
    ("DELETE", "/webhooks/{}", USERS, 404),
    ("POST", "/webhooks/{}/rotate", USERS, 404),
    ("GET", "/webhooks/{}/deliveries", USERS, 404),
    ("GET", "/webhooks/{}/deliveries/{}", USERS, 404),
    ("POST", "/webhooks/{}/deliveries/{}/redeliver", USERS, 404),
]
GUARDED = [row for row in TABLE if row[2] != ANYBODY]


def routes() -> Iterator[tuple[str, str]]:
    """Yield every method and route, with `{}` for the parameters of its path."""

    def walk(patterns: list[Any], prefix: str) -> Iterator[tuple[str, str]]:
        for pattern in patterns:
            route = prefix + re.sub(r"<[^>]+>", "{}", str(pattern.pattern))
            if route in ADMIN_PAGES:
                continue
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, route)
            elif isinstance(pattern, URLPattern):
                for method in _methods(pattern.callback):
                    yield method, route

    yield from walk(get_resolver(settings.ROOT_URLCONF).url_patterns, "/")


def _methods(view: Any) -> list[str]:
    if operations := getattr(view, "operations", None):
        return [operation.method for operation in operations]
    view_class = getattr(view, "view_class", None) or getattr(view, "cls", None)
    return [method for method in METHODS if hasattr(view_class, method.lower())] if view_class else ["GET"]


@pytest.fixture(scope="module")
def credentials(stoa: RunningServer) -> dict[str, str]:
    login = {"username": "staff@example.com", "password": PASSWORD}
    session = httpx2.post(f"{stoa.url}/auth/login", json=login, timeout=60).json()["token"]
    return stoa.keys | {"SESSION": session, "MADE_UP": "stoa_0123456789_made-up"}


def ask(
    stoa: RunningServer, method: str, route: str, headers: dict[str, str], *, query: str = "", **body: str
) -> httpx2.Response:
    url = stoa.url + route.replace("{}", "nobody") + query
    return httpx2.request(method, url, json=None if method == "GET" else body, headers=headers, timeout=60)


def with_key(credentials: dict[str, str], identity: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credentials[identity]}"} if identity in credentials else {}


def test_a9_every_route_and_method_has_a_row_and_every_row_a_route():
    told = [row[:2] for row in TABLE]
    assert set(told) == set(routes())
    assert len(told) == len(set(told))


@pytest.mark.parametrize(("method", "route", "allowed", "status"), TABLE, ids=[" ".join(row[:2]) for row in TABLE])
def test_a9_each_caller_gets_the_status_of_the_table(
    stoa: RunningServer, credentials: dict[str, str], method: str, route: str, allowed: frozenset[str], status: int
):
    for identity in IDENTITIES:
        answer = ask(stoa, method, route, with_key(credentials, identity))
        expected = status if identity in allowed else 403 if identity in KNOWN else 401
        assert answer.status_code == expected, (identity, answer.text)
        if expected in (401, 403) and not route.startswith(("/v1", "/v2", "/api/", "/mcp")):
            told = {401: "AUTHENTICATION_FAILED", 403: "AUTHORIZATION_FAILED"}[expected]
            assert answer.json()["error"]["code"] == told
        assert (answer.headers.get("www-authenticate") == "Bearer") == (expected == 401)


@pytest.mark.parametrize("route", sorted({row[1] for row in TABLE} - {"/livez", "/readyz"}))
def test_a9_other_methods_are_rejected_for_everybody(stoa: RunningServer, credentials: dict[str, str], route: str):
    for method in set(METHODS) - {row[0] for row in TABLE if row[1] == route}:
        for identity in ("NOBODY", "SUPER_ADMIN"):
            refused = ask(stoa, method, route, with_key(credentials, identity)).status_code
            assert refused == (403 if route in PAGES else 405), (method, identity)


@pytest.mark.parametrize(("method", "route", "allowed", "status"), GUARDED, ids=[" ".join(row[:2]) for row in GUARDED])
def test_a8_a_key_is_accepted_in_its_two_headers_only(
    stoa: RunningServer, method: str, route: str, allowed: frozenset[str], status: int
):
    key = stoa.keys["SUPER_ADMIN"]
    assert ask(stoa, method, route, {"X-API-Key": key}).status_code == status
    assert ask(stoa, method, route, {}, query=f"?api_key={key}&token={key}").status_code == 401
    assert ask(stoa, method, route, {}, api_key=key, token=key).status_code == 401
    assert ask(stoa, method, route, {"Cookie": f"token={key}; api_key={key}"}).status_code == 401
    assert ask(stoa, method, route, {"Authorization": f"Bearer {key}x"}).status_code == 401
    assert ask(stoa, method, route, {"Authorization": f"Basic {key}"}).status_code == 401
