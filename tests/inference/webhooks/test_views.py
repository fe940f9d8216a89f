"""Routes of /webhooks on a running server."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.inference.running_server import RunningServer

PUBLIC = "https://93.184.216.34"


def ask(stoa: RunningServer, method: str, path: str, body: object = None, role: str = "STAFF") -> httpx2.Response:
    return httpx2.request(method, f"{stoa.url}/webhooks{path}", json=body, headers=stoa.headers(role), timeout=60)


def create_webhook(stoa: RunningServer, url: str, role: str = "STAFF", **more: Any) -> dict[str, Any]:
    answer = ask(stoa, "POST", "", {"url": url} | more, role)
    assert answer.status_code == 200, answer.text
    endpoint: dict[str, Any] = answer.json()
    return endpoint


@pytest.fixture(autouse=True)
def _delete_webhooks(stoa: RunningServer) -> Iterator[None]:
    """Delete all webhooks afterwards: other tests use the same server."""
    yield
    for role in ("STAFF", "STORE_OWNER"):
        for endpoint in ask(stoa, "GET", "", role=role).json()["webhooks"]:
            ask(stoa, "DELETE", f"/{endpoint['id']}", role=role)


def test_a_webhook_is_created_read_changed_and_deleted(stoa: RunningServer):
    before = ask(stoa, "GET", "").json()["webhooks"]  # of other tests
    endpoint = create_webhook(stoa, f"{PUBLIC}/hook")
    path = f"/{endpoint['id']}"

    assert endpoint.pop("secret").startswith("whsec_")
    assert endpoint["id"].startswith("wh_")
    assert (endpoint["url"], endpoint["events"]) == (f"{PUBLIC}/hook", ["batch.complete"])
    assert (endpoint["enabled"], endpoint["disabled_by"], endpoint["previous_secret_until"]) == (True, None, None)
    assert ask(stoa, "GET", path).json() == endpoint
    assert ask(stoa, "GET", "").json() == {"webhooks": [*before, endpoint]}

    changed = ask(stoa, "PATCH", path, {"url": f"{PUBLIC}/other", "enabled": False}).json()
    assert (changed["url"], changed["enabled"], changed["disabled_by"]) == (f"{PUBLIC}/other", False, "owner")
    assert changed["events"] == ["batch.complete"]
    assert ask(stoa, "PATCH", path, {}).json()["enabled"] is False

    assert ask(stoa, "DELETE", path).json() == {"id": endpoint["id"], "deleted": True}
    assert ask(stoa, "GET", path).status_code == 404


def test_a_secret_is_shown_only_when_it_is_created(stoa: RunningServer):
    endpoint = create_webhook(stoa, f"{PUBLIC}/hook")
    rotated = ask(stoa, "POST", f"/{endpoint['id']}/rotate").json()

    assert rotated["secret"] != endpoint["secret"]
    assert rotated["previous_secret_until"] > rotated["updated_at"]
    for answer in (
        ask(stoa, "GET", ""),
        ask(stoa, "GET", f"/{endpoint['id']}"),
        ask(stoa, "PATCH", f"/{endpoint['id']}", {"enabled": True}),
    ):
        assert "whsec_" not in answer.text
        assert '"secret"' not in answer.text


def test_a_secret_is_never_stored_for_an_idempotency_key(stoa: RunningServer):
    headers = stoa.headers("STAFF") | {"Idempotency-Key": "once"}
    endpoint = create_webhook(stoa, f"{PUBLIC}/hook")
    path = f"{stoa.url}/webhooks/{endpoint['id']}/rotate"
    first, second = (httpx2.post(path, headers=headers, timeout=60).json()["secret"] for _ in range(2))

    assert first != second


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": 7}, "url"),
        ({"url": "http://127.0.0.1/"}, "url"),
        ({"url": f"{PUBLIC}:8443/"}, "url"),
        ({"url": f"{PUBLIC}/", "events": ["batch.begun"]}, "events[0]"),
        ({"url": f"{PUBLIC}/", "enabled": "yes"}, "enabled"),
        ({"url": f"{PUBLIC}/", "secret": "whsec_mine"}, "secret"),
    ],
)
def test_an_invalid_webhook_is_refused_by_field(stoa: RunningServer, body: object, field: str):
    answer = ask(stoa, "POST", "", body)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "INVALID_REQUEST"
    assert answer.json()["error"]["details"]["field"] == field
    assert ask(stoa, "GET", "").json() == {"webhooks": []}


def test_deliveries_are_listed_in_pages_and_redelivered(stoa: RunningServer, announce: Any):
    path = f"/{create_webhook(stoa, f'{PUBLIC}/hook')['id']}/deliveries"
    announce("STAFF", 5)
    pages, after = [], ""
    while after is not None:
        page = ask(stoa, "GET", f"{path}?limit=2&after={after}").json()
        pages.append(page["deliveries"])
        after = page["next"]

    found = [delivery for page in pages for delivery in page]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [delivery["state"] for delivery in found] == ["pending", "pending", "pending", "failed", "failed"]
    assert len({delivery["id"] for delivery in found}) == 5
    failed = ask(stoa, "GET", f"{path}?state=failed").json()["deliveries"]
    assert failed == found[3:]

    detail = ask(stoa, "GET", f"{path}/{failed[0]['id']}").json()
    assert detail["body"]["data"] == {"number": 1}
    (attempt,) = detail["attempts"]
    assert attempt.pop("started_at").endswith("Z")
    assert attempt == {"number": 1, "duration_ms": 7, "status": 500, "failure": "status"}

    again = ask(stoa, "POST", f"{path}/{failed[0]['id']}/redeliver").json()
    assert (again["id"], again["state"], again["finished_at"]) == (failed[0]["id"], "pending", None)
    assert again["next_attempt_at"] is not None


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "state=lost", "page=2", "after=msg_0"])
def test_an_invalid_query_is_refused(stoa: RunningServer, query: str):
    path = f"/{create_webhook(stoa, f'{PUBLIC}/hook')['id']}/deliveries?{query}"
    answer = ask(stoa, "GET", path)

    assert answer.status_code == 400
    assert answer.json()["error"]["details"]["field"] == query.partition("=")[0]


def test_another_users_webhooks_are_not_found(stoa: RunningServer, announce: Any):
    endpoint = create_webhook(stoa, f"{PUBLIC}/hook")
    announce("STAFF", 2)
    path = f"/{endpoint['id']}"
    delivery = ask(stoa, "GET", f"{path}/deliveries").json()["deliveries"][0]
    others = create_webhook(stoa, f"{PUBLIC}/hook", "STORE_OWNER")

    routes = [
        ("GET", path, None),
        ("PATCH", path, {"enabled": False}),
        ("DELETE", path, None),
        ("POST", f"{path}/rotate", None),
        ("GET", f"{path}/deliveries", None),
        ("GET", f"{path}/deliveries/{delivery['id']}", None),
        ("POST", f"{path}/deliveries/{delivery['id']}/redeliver", None),
    ]
    for role in ("STORE_OWNER", "SUPER_ADMIN"):
        for method, route, body in routes:
            answer = ask(stoa, method, route, body, role)
            assert answer.status_code == 404, (method, route, answer.text)
            assert answer.json()["error"]["code"] == "INVALID_REQUEST"
    for role in ("CUSTOMER", "READER"):
        for method, route, body in [("GET", "", None), ("POST", "", {"url": f"{PUBLIC}/x"}), *routes]:
            assert ask(stoa, method, route, body, role).status_code == 403
    crossed = f"/{others['id']}/deliveries/{delivery['id']}"
    assert ask(stoa, "GET", crossed, role="STORE_OWNER").status_code == 404
    assert ask(stoa, "GET", path).json()["enabled"] is True


def test_an_unsupported_method_lists_the_supported_ones(stoa: RunningServer):
    answer = ask(stoa, "PUT", "", {})

    assert answer.status_code == 405
    assert {method.strip() for method in answer.headers["allow"].split(",")} == {"GET", "HEAD", "POST"}
    assert json.loads(answer.text)["error"]["code"] == "INVALID_REQUEST"
    assert httpx2.head(f"{stoa.url}/webhooks", headers=stoa.headers("STAFF"), timeout=60).status_code == 200


def test_the_first_webhook_url_of_a_batch_returns_the_secret_once(stoa: RunningServer):
    batch = {"model": "talker", "requests": [{"id": "a", "prompt": "x"}], "webhook_url": f"{PUBLIC}/one-off"}
    wrong = batch | {"requests": [{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}]}

    def post(body: object, **headers: str) -> httpx2.Response:
        return httpx2.post(f"{stoa.url}/batch", json=body, headers=stoa.headers("STAFF") | headers, timeout=60)

    assert post(batch | {"webhook_url": "http://127.0.0.1/"}).status_code == 400
    assert post(wrong).status_code == 400
    assert ask(stoa, "GET", "").json() == {"webhooks": []}
    first = post(batch, **{"Idempotency-Key": "first"})
    assert first.json()["webhook_secret"].startswith("whsec_")
    replayed = post(batch, **{"Idempotency-Key": "first"})
    assert replayed.json()["batch_id"] == first.json()["batch_id"]
    assert "webhook_secret" not in replayed.json()
    assert "webhook_secret" not in post(batch).json()

    (default,) = ask(stoa, "GET", "").json()["webhooks"]
    assert (default["url"], default["events"]) == (None, [])
    refused = ask(stoa, "PATCH", f"/{default['id']}", {"url": f"{PUBLIC}/x"})
    assert refused.json()["error"]["details"]["field"] == "url"
