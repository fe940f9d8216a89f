"""Signing in, API versions, and the bodies of errors."""

import httpx2
import pytest

from tests.inference.running_server import PASSWORD, RunningServer


def sign_in(stoa: RunningServer, username: str, password: str) -> httpx2.Response:
    return httpx2.post(f"{stoa.url}/auth/login", json={"username": username, "password": password}, timeout=30)


def test_signing_in_returns_an_access_token_that_works(stoa: RunningServer):
    answer = sign_in(stoa, "Store_Owner@example.com", PASSWORD)

    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["token"] == body["access_token"]
    assert body["token_type"] == "bearer"
    assert 0 < body["expires_in"] <= 86_400
    assert body["expires_at"].endswith("Z")
    assert body["refresh_token"]
    assert body["user"]["username"] == "store_owner@example.com"
    assert body["user"]["role"] == "STORE_OWNER"
    models = httpx2.get(f"{stoa.url}/models", headers={"Authorization": f"Bearer {body['token']}"}, timeout=60)
    assert models.status_code == 200
    refresh = httpx2.get(f"{stoa.url}/models", headers={"Authorization": f"Bearer {body['refresh_token']}"}, timeout=60)
    assert refresh.status_code == 401


def test_a6_a_wrong_password_and_an_unknown_user_have_the_same_response(stoa: RunningServer):
    known, unknown = sign_in(stoa, "staff@example.com", "wrong"), sign_in(stoa, "nobody@example.com", "wrong")

    assert known.status_code == unknown.status_code == 401
    assert known.json()["error"] == unknown.json()["error"]
    assert known.json()["error"]["code"] == "AUTHENTICATION_FAILED"


def test_i2_a_large_body_on_a_public_route_is_413(stoa: RunningServer):
    answer = httpx2.post(f"{stoa.url}/auth/login", json={f"k{number}": 1 for number in range(10_000)}, timeout=60)

    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/batch/nobody", "batch"),
        ("GET", "/batch/nobody/results", "batch"),
        ("POST", "/batch/nobody/cancel", "batch"),
        ("GET", "/batch?after=nobody", "batch"),
        ("GET", "/v1/batches/nobody", "batch"),
        ("POST", "/v1/batches/nobody/cancel", "batch"),
        ("GET", "/v1/batches?after=nobody", "batch"),
        ("GET", "/v1/files/nobody", "file"),
        ("GET", "/v1/files/nobody/content", "file"),
        ("DELETE", "/v1/files/nobody", "file"),
        ("GET", "/v1/files?after=nobody", "file"),
        ("GET", "/webhooks/nobody", "webhook"),
        ("PATCH", "/webhooks/nobody", "webhook"),
        ("DELETE", "/webhooks/nobody", "webhook"),
        ("POST", "/webhooks/nobody/rotate", "webhook"),
        ("GET", "/webhooks/nobody/deliveries", "webhook"),
        ("GET", "/webhooks/nobody/deliveries/nobody", "delivery"),
        ("POST", "/webhooks/nobody/deliveries/nobody/redeliver", "delivery"),
    ],
)
def test_a_missing_object_reads_the_same_whatever_the_method(stoa: RunningServer, method: str, path: str, kind: str):
    json = {"enabled": True} if method == "PATCH" else None
    answer = httpx2.request(method, f"{stoa.url}{path}", json=json, headers=stoa.headers(), timeout=60)

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == f"There is no {kind} 'nobody', or it is not yours."


@pytest.mark.parametrize("body", [{}, {"username": "a"}, {"username": 1, "password": "x"}, {"email": "a"}, []])
def test_a_sign_in_without_its_fields_is_400(stoa: RunningServer, body: object):
    answer = httpx2.post(f"{stoa.url}/auth/login", json=body, timeout=60)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("GET", "/models", 401),
        ("GET", "/nowhere", 404),
        ("GET", "/v1/nowhere", 404),
        ("DELETE", "/health", 405),
        ("GET", "/models/", 404),
    ],
)
def test_every_response_has_a_version_and_a_request_id_and_every_error_a_body(
    stoa: RunningServer, method: str, path: str, status: int
):
    answer = httpx2.request(method, stoa.url + path, headers={"X-Request-Id": "mine.1"}, timeout=60)

    assert answer.status_code == status
    assert answer.headers["api-version"] == "1.0"
    assert answer.headers["x-request-id"] == "mine.1"
    if status != 200:
        assert answer.json()["request_id"] == "mine.1"
        assert answer.json()["timestamp"].endswith("Z")
        kind = {"message", "type", "param", "code"} if path.startswith("/v1/") else {"code", "message"}
        assert answer.json()["error"].keys() == kind


def test_a_response_from_outside_django_has_them_too(stoa: RunningServer):
    status, headers, body = stoa.ask_as_written("POST", "/inference", {"Content-Length": str(10**9)})

    assert status == 413
    assert headers["api-version"] == "1.0"
    assert body["error"]["code"] == "INVALID_REQUEST"


@pytest.mark.parametrize(("version", "status"), [("1.0", 200), ("1.7", 200), ("1", 200), ("2.0", 400), ("x", 400)])
def test_another_major_version_is_rejected(stoa: RunningServer, version: str, status: int):
    answer = httpx2.get(f"{stoa.url}/health", headers={"API-Version": version}, timeout=60)

    assert answer.status_code == status
    assert answer.headers["api-version"] == "1.0"
    if status == 400:
        assert "1.0" in answer.json()["error"]["message"]
