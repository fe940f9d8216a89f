"""Rate limit of requests per user or address, in front of Django."""

import asyncio
import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from shared.accounts.authentication import NotAuthenticated, authenticate
from shared.accounts.middleware import request_limits
from shared.accounts.middleware.request_limits import limit_request
from shared.accounts.models import SignIn, User
from shared.accounts.services import create_api_key, revoke_api_key, sign_out
from shared.accounts.tasks import delete_expired
from shared.accounts.tokens import AccessToken, RefreshToken, SignInToken
from shared.serving.asgi import turns
from shared.serving.asgi.wrapper import wrap
from tests.shared.accounts.conftest import make_user, signed_in

pytestmark = pytest.mark.no_database

ROUNDS = 4

# One process of several: in each round the same user, all at once; then how many were allowed in each.
CROWD = """
import asyncio, json, sys
import django
django.setup()
from django.conf import settings
from tests.shared.accounts.middleware.test_request_limits import application, get, token_of
settings.REQUEST_LIMIT = 100
settings.API_ERROR_BODY = "tests.shared.api.wire.error_body"
async def crowd(user_id):
    headers = {"authorization": f"Bearer {token_of(user_id)}"}
    answers = await asyncio.gather(*(get(application, headers=headers) for _ in range(200)))
    return sum(answer.status == 200 for answer in answers)
sys.stdin.readline()
print(json.dumps([asyncio.run(crowd(user_id)) for user_id in range(1, int(sys.argv[1]) + 1)]))
"""


class ClientResponse:
    """Response as a client sees it, and whether the request body was read."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.body_was_read = False

    def json(self) -> Any:
        return json.loads(self.body)


async def project(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": b"true", "more_body": False})


application = wrap(project, rate_limit=limit_request)


async def get(
    application: Any, path: str = "/api/me", address: str = "192.0.2.1", headers: dict[str, str] | None = None
) -> ClientResponse:
    response = ClientResponse()

    async def receive() -> dict[str, Any]:
        response.body_was_read = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            response.status = event["status"]
            response.headers = {name.decode(): value.decode() for name, value in event["headers"]}
        response.body += event.get("body", b"")

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "client": (address, 1),
        "headers": [(b"host", b"localhost"), *((k.encode(), v.encode()) for k, v in (headers or {}).items())],
    }
    await application(scope, receive, send)
    return response


def token_of(user_id: int, token_class: type[SignInToken] = AccessToken, age: timedelta = timedelta(minutes=1)) -> str:
    return str(token_class.for_sign_in(SignIn(user=User(pk=user_id)), now=timezone.now() - age))


@pytest.fixture(autouse=True)
def _three_a_minute(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REQUEST_LIMIT = 3
    monkeypatch.setattr(request_limits, "_api_key_owners", request_limits.ApiKeyOwnerCache())


async def statuses(times: int = 5, **given: Any) -> list[int]:
    return [(await get(application, **given)).status for _ in range(times)]


async def test_a_request_over_the_limit_is_refused_before_its_body_is_read() -> None:
    answers = [await get(application) for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
    refused = answers[-1]
    assert not refused.body_was_read
    assert refused.json()["code"] == "rate_limited"
    assert refused.json()["details"]["retry_after"] == int(refused.headers["retry-after"])
    assert refused.headers["x-ratelimit-reset-after"] == refused.headers["retry-after"]
    assert refused.headers["x-ratelimit-limit"] == "3"
    assert refused.headers["connection"] == "close"
    assert "retry-after" not in answers[0].headers


async def test_rate_limit_headers_of_the_route_take_precedence() -> None:
    async def limited(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"X-RateLimit-Limit", b"5"), (b"X-RateLimit-Remaining", b"4")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    answer = await get(wrap(limited, rate_limit=limit_request))
    assert answer.headers["X-RateLimit-Remaining"] == "4"
    assert "x-ratelimit-remaining" not in answer.headers


async def test_n9_a_reserved_connection_is_for_a_credential_of_somebody() -> None:
    async def reserved(scope: Any, receive: Any, send: Any) -> None:
        await application(scope | {"stoa.needs_credential": True}, receive, send)

    async def status(credential: str) -> int:
        response = await get(reserved, headers={"authorization": f"Bearer {credential}"})
        assert response.body_was_read == (response.status == 200)
        return response.status

    assert await status(token_of(7)) == 200
    assert await status(token_of(7, RefreshToken)) == 503
    assert await status(token_of(7)[:-4]) == 503
    assert await status("x") == 503


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/static/admin/css/base.css"])
async def test_probes_and_static_files_are_never_limited(path: str) -> None:
    answers = [await get(application, path=path) for _ in range(6)]
    assert {answer.status for answer in answers} == {200}
    assert "x-ratelimit-limit" not in answers[0].headers


async def test_a_user_is_counted_regardless_of_address_and_token() -> None:
    statuses_seen = [
        (await get(application, address=f"192.0.2.{number}", headers={"authorization": f"Bearer {token_of(7)}"})).status
        for number in range(5)
    ]
    assert statuses_seen == [200, 200, 200, 429, 429]
    assert await statuses(1, headers={"authorization": f"Bearer {token_of(8)}"}) == [200]


@pytest.mark.django_db(transaction=True)
def test_r1_forged_credentials_and_forwarded_headers_count_for_the_address() -> None:
    forged = [
        {"authorization": "Bearer made-up"},
        {"authorization": "Bearer stoa_aaaa_bbbb"},
        {"x-api-key": "x" * 5000},
        {"authorization": f"Bearer {token_of(7, RefreshToken)}"},
        {"authorization": f"Bearer {token_of(7, age=timedelta(days=1, minutes=1))}"},
        {"x-forwarded-for": "198.51.100.1"},
        {"forwarded": "for=198.51.100.2"},
        {"x-real-ip": "198.51.100.3"},
        {"authorization": "Bearer"},
    ]

    async def call_with_all() -> list[int]:
        return [(await get(application, headers=headers)).status for headers in forged]

    assert asyncio.run(call_with_all()) == [200] * 3 + [429] * 6


async def test_r1_two_hundred_new_x_forwarded_for_are_one_address(settings: Settings) -> None:
    settings.REQUEST_LIMIT = 20
    answers = [await get(application, headers={"x-forwarded-for": f"10.0.{n // 250}.{n % 250}"}) for n in range(200)]
    assert [answer.status for answer in answers] == [200] * 20 + [429] * 180


async def test_r1_only_the_entry_of_a_trusted_proxy_counts(settings: Settings) -> None:
    settings.TRUSTED_PROXY_COUNT = 1
    through = [await get(application, headers={"x-forwarded-for": f"10.0.0.{n}, 198.51.100.1"}) for n in range(5)]
    assert [answer.status for answer in through] == [200, 200, 200, 429, 429]
    assert await statuses(1, headers={"x-forwarded-for": "198.51.100.2"}) == [200]


@pytest.mark.django_db(transaction=True)
def test_the_keys_of_a_user_are_counted_with_their_tokens() -> None:
    user = make_user()
    keys = [create_api_key(user=user, name="k", now=timezone.now())[1] for _ in range(2)]

    async def call_with_all() -> list[int]:
        headers = [{"x-api-key": keys[0]}, {"authorization": f"Bearer {keys[1]}"}, {"x-api-key": keys[0]}]
        headers.append({"authorization": f"Bearer {token_of(user.pk)}"})
        return [(await get(application, address=f"192.0.2.{n}", headers=sent)).status for n, sent in enumerate(headers)]

    assert asyncio.run(call_with_all()) == [200, 200, 200, 429]


@pytest.mark.django_db(transaction=True)
def test_a_key_is_looked_up_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    user = make_user()
    raw = create_api_key(user=user, name="k", now=timezone.now())[1]
    asked: list[str] = []
    look_up = request_limits._load_owner
    monkeypatch.setattr(request_limits, "_load_owner", lambda key: asked.append(key) or look_up(key))

    assert asyncio.run(statuses(headers={"x-api-key": raw})) == [200, 200, 200, 429, 429]
    assert asked == [raw]
    assert User.objects.count() == 1


def fetch_through_limit(key: str, address: str = "192.0.2.1") -> ClientResponse:
    return asyncio.run(get(application, address=address, headers={"x-api-key": key}))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["revoked", "made up"])
def test_n7_a_refused_key_costs_its_owner_nothing_and_no_query_after_the_first(
    settings: Settings, django_assert_num_queries: Any, kind: str
) -> None:
    settings.REQUEST_LIMIT = 5
    user = make_user(email="owner@example.com")
    key, raw = create_api_key(user=user, name="k", now=timezone.now())
    valid = create_api_key(user=user, name="valid", now=timezone.now())[1]
    if kind == "revoked":
        revoke_api_key(api_key=key, now=timezone.now())
    else:
        raw = f"stoa_{key.key_id}_{'A' * 43}"
    statuses = [fetch_through_limit(raw).status for _ in range(7)]
    assert statuses == [200] * 5 + [429] * 2, "of the address"
    with django_assert_num_queries(0):
        for _ in range(1000):
            with pytest.raises(NotAuthenticated):
                authenticate(raw)
    assert [fetch_through_limit(valid, "192.0.2.9").status for _ in range(6)] == [200] * 5 + [429]


@pytest.mark.django_db(transaction=True)
def test_n7_a_key_that_is_revoked_while_its_owner_is_known_is_charged_once_at_most(settings: Settings) -> None:
    settings.REQUEST_LIMIT = 5
    user = make_user(email="late@example.com")
    key, raw = create_api_key(user=user, name="k", now=timezone.now())
    assert fetch_through_limit(raw, "192.0.2.1").status == 200
    revoke_api_key(api_key=key, now=timezone.now())
    with pytest.raises(NotAuthenticated):
        authenticate(raw)
    for _ in range(5):
        fetch_through_limit(raw, "192.0.2.2")
    valid = create_api_key(user=user, name="valid", now=timezone.now())[1]
    assert [fetch_through_limit(valid, "192.0.2.3").status for _ in range(5)] == [200] * 4 + [429]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_deleted", [False, True])
def test_n7_the_token_of_an_ended_sign_in_is_charged_to_its_user_once_at_most(
    settings: Settings, django_assert_num_queries: Any, is_deleted: bool
) -> None:
    settings.REQUEST_LIMIT = 5
    user = make_user(email="gone@example.com")
    tokens, valid = signed_in(user), signed_in(user)
    sign_out(principal=authenticate(tokens.access), refresh=None, now=timezone.now())
    if is_deleted:
        delete_expired(now=timezone.now())

    def fetch(token: str, address: str) -> int:
        return asyncio.run(get(application, address=address, headers={"authorization": f"Bearer {token}"})).status

    assert fetch(tokens.access, "192.0.2.1") == 200
    with pytest.raises(NotAuthenticated):
        authenticate(tokens.access)
    assert [fetch(tokens.access, "192.0.2.2") for _ in range(7)] == [200] * 5 + [429] * 2, "of the address"
    with django_assert_num_queries(0), pytest.raises(NotAuthenticated):
        authenticate(tokens.access)
    assert [fetch(valid.access, "192.0.2.3") for _ in range(5)] == [200] * 4 + [429]


async def test_n7_made_up_keys_of_an_address_are_looked_up_one_by_one_beside_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looking: list[str] = []
    most: list[int] = []

    def look_up(key: str) -> None:
        looking.append(key)
        most.append(len(looking))
        time.sleep(0.01)
        looking.remove(key)

    monkeypatch.setattr(request_limits, "_load_owner", look_up)
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 60.0)
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    await turns.client_turns.run("user:1", time.sleep, 0)
    made_up = [{"x-api-key": f"stoa_{number}_made_up"} for number in range(20)]
    await asyncio.gather(*(get(application, address="198.51.100.2", headers=headers) for headers in made_up))
    assert most == [1] * 20


async def test_a_key_counts_for_its_address_when_the_database_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(raw: str) -> None:
        raise request_limits.DatabaseError("away")

    monkeypatch.setattr(request_limits, "find_api_key", away)
    assert await statuses(headers={"x-api-key": "stoa_a_b"}) == [200, 200, 200, 429, 429]


async def test_r3_the_process_counts_alone_when_the_store_fails(settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/requests.sock?db=0"
    assert await statuses(address="203.0.113.3") == [200, 200, 200, 429, 429]


def test_r2_of_four_processes_with_200_requests_each_at_once_exactly_100_are_let_through() -> None:
    command = [sys.executable, "-c", CROWD, str(ROUNDS)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=os.environ, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    rounds = [json.loads(process.communicate("go\n", timeout=100)[0]) for process in processes]
    assert [sum(counts) for counts in zip(*rounds, strict=True)] == [100] * ROUNDS
