"""A POST that is repeated with its Idempotency-Key is replayed and not carried out again."""

import asyncio
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from asgiref.sync import sync_to_async
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection, connections, transaction
from django.db.backends.signals import connection_created
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import AsyncClient, Client
from django.urls import path
from django.utils import timezone
from pytest_django import Settings
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from shared.accounts import services
from shared.accounts.middleware import idempotency
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user
from shared.accounts.views import ChangePasswordView
from shared.api.errors import ApiError
from shared.api.idempotency import store
from shared.api.idempotency.store import (
    IdempotencyMode,
    renew_claim,
    store_keyed_response,
    store_response,
    try_claim_key,
)
from shared.api.limits.throttling import RateLimitThrottle
from shared.api.models import KeyedRequest
from shared.serving.asgi.handler import ConnectionReleasingHandler
from shared.serving.asgi.threads import ThreadReuseMiddleware

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]


class ThingsView(APIView):
    """A view that creates a user for each POST, then does what the body says."""

    before_answer: ClassVar[Callable[[], None]] = staticmethod(lambda: None)

    def post(self, request: Request) -> HttpResponseBase:
        with transaction.atomic():
            made = make_user(f"{uuid.uuid4().hex}@made.example")
        ThingsView.before_answer()
        match dict(request.data).get("then"):
            case "refuse":
                raise ApiError(409, "It is there already.")
            case "limit":
                raise ApiError(429, "Too many.")
            case "break":
                raise RuntimeError("it broke")
            case "stream":
                return StreamingHttpResponse([b"a", b"b"])
        return Response({"id": made.pk}, status=201)


class SlowThingsView(ThingsView):
    idempotency = IdempotencyMode.DEFERRED


class SecretsView(ThingsView):
    idempotency = IdempotencyMode.DISABLED


class LimitedView(ThingsView):
    throttle_classes = [RateLimitThrottle.of("things", "THINGS_LIMIT")]


class FilesView(APIView):
    parser_classes = [MultiPartParser]

    def post(self, request: Request) -> Response:
        make_user(f"{uuid.uuid4().hex}@made.example")
        return Response([request.POST["title"], *(file.read().decode() for file in request.FILES.getlist("file"))])


urlpatterns = [
    path("things", ThingsView.as_view()),
    path("other-things", ThingsView.as_view()),
    path("slow-things", SlowThingsView.as_view()),
    path("secrets", SecretsView.as_view()),
    path("limited", LimitedView.as_view()),
    path("files", FilesView.as_view()),
    path("change-password", ChangePasswordView.as_view()),
]


def make_user(email: str) -> User:
    return create_user(email=email, name="N", password=None, role=Role.CUSTOMER, now=timezone.now())


def how_many() -> int:
    return User.objects.filter(email__endswith="@made.example").count()


def bearer(user: User, permissions: list[str] | None = None) -> str:
    return f"Bearer {create_api_key(user=user, name='k', permissions=permissions, now=timezone.now())[1]}"


@pytest.fixture(autouse=True)
def _small_site(neutral_errors: None, settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__
    settings.THINGS_LIMIT = 2
    name = "shared.accounts.middleware.idempotency.IdempotencyMiddleware"
    settings.MIDDLEWARE = [*(other for other in settings.MIDDLEWARE if other != name), name]


@pytest.fixture
def post(db: None) -> Make:
    """Send a body as one user with an idempotency key."""
    credential = bearer(make_user("ada@example.com"))

    def send(path: str = "/things", key: str = "k", credential: str = credential, **body: Any) -> Any:
        headers = {"Authorization": credential, "Idempotency-Key": key}
        client = Client(raise_request_exception=False)
        return client.post(path, body, content_type="application/json", headers=headers)

    return send


def test_a_repeated_request_replays_the_response_and_does_nothing(post: Make) -> None:
    first, second = post(a=1), post(a=1)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert second.headers["Content-Type"] == "application/json"
    assert how_many() == 1


def test_without_a_key_everything_is_done_each_time(post: Make) -> None:
    credential = bearer(make_user("eve@example.com"))
    for _ in range(2):
        Client().post("/things", {}, content_type="application/json", headers={"Authorization": credential})
    assert how_many() == 2
    assert not KeyedRequest.objects.exists()


def test_another_body_with_the_same_key_is_refused(post: Make) -> None:
    post(a=1)
    answer = post(a=2)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"Idempotency-Key"}
    assert how_many() == 1


def test_another_query_with_the_same_key_is_refused(post: Make) -> None:
    post("/things?a=1")
    assert post("/things?a=2").status_code == 422


def test_o3_a_stored_fingerprint_reveals_nothing_without_the_secret_key(post: Make, settings: Settings) -> None:
    for number in range(2):
        settings.SECRET_KEY = f"secret {number}"
        post(key=f"k{number}", password="guess me")

    first, second = KeyedRequest.objects.values_list("fingerprint", flat=True)
    assert first != second


def test_after_a_change_of_the_secret_key_a_request_that_is_sent_again_is_answered_again(
    post: Make, settings: Settings
) -> None:
    before = settings.SECRET_KEY
    first = post(a=1)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the one after it " * 4, [before]

    again = post(a=1)

    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert how_many() == 1
    assert post(a=2).status_code == 422


@pytest.mark.django_db(transaction=True)
def test_a_password_is_hashed_outside_of_any_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = []

    def matches(user: User, password: str) -> bool:
        inside.append(connection.in_atomic_block)
        return False

    monkeypatch.setattr(services, "password_matches", matches)
    headers = {"Authorization": bearer(make_user("ada@example.com")), "Idempotency-Key": "k"}
    body = {"old": "a", "new": "b"}

    answer = Client().post("/change-password", body, content_type="application/json", headers=headers)

    assert (answer.status_code, inside) == (422, [False])


def test_keys_of_other_paths_and_other_users_are_other_keys(post: Make) -> None:
    other = bearer(make_user("eve@example.com"))
    answers = [post(), post("/other-things"), post(credential=other), post(key="l")]
    assert [answer.status_code for answer in answers] == [201] * 4
    assert how_many() == 4


def test_a_restricted_api_key_does_not_replay_the_users_response(post: Make) -> None:
    owner = create_user(email="o@example.com", name="O", password=None, role=Role.STORE_OWNER, now=timezone.now())
    post(credential=bearer(owner))
    answer = post(credential=bearer(owner, ["read_models"]))
    assert "Idempotent-Replayed" not in answer.headers


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "h\xe9"])
def test_an_invalid_key_is_refused(post: Make, key: str) -> None:
    answer = post(key=key)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"Idempotency-Key"}
    assert how_many() == 0


def test_the_longest_key_is_accepted(post: Make) -> None:
    assert post(key="x" * 255).status_code == post(key="x" * 255).status_code == 201
    assert how_many() == 1


def test_a_stored_refusal_keeps_its_changes(post: Make) -> None:
    first, second = post(then="refuse"), post(then="refuse")
    assert (first.status_code, second.status_code) == (409, 409)
    assert first.content == second.content
    assert how_many() == 1


def test_a_response_whose_transaction_failed_is_not_stored_and_its_key_is_free(
    post: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_commit(view: APIView, request: Request) -> HttpResponseBase:
        with transaction.atomic():
            store_keyed_response(request._request, HttpResponse())
            raise OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patched:
        patched.setattr(SlowThingsView, "post", fail_to_commit)
        assert post("/slow-things").status_code == 503
    assert not KeyedRequest.objects.exists()
    assert post("/slow-things").status_code == 201


@pytest.mark.parametrize(("then", "status"), [("limit", 429), ("break", 500)])
def test_other_errors_are_not_stored_and_their_changes_are_rolled_back(post: Make, then: str, status: int) -> None:
    assert post(then=then).status_code == status
    assert how_many() == 0
    assert not KeyedRequest.objects.exists()
    assert post().status_code == 201


def test_x6_an_unavailable_database_is_503_and_claims_no_key(post: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(credential: str) -> None:
        raise OperationalError("terminating connection due to administrator command")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(idempotency, "authenticate", away)
        answer = post()

    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert how_many() == 0
    assert not KeyedRequest.objects.exists()
    assert post().status_code == 201


def test_a_stream_is_not_stored(post: Make) -> None:
    assert post("/slow-things", then="stream").getvalue() == b"ab"
    assert not KeyedRequest.objects.exists()


@pytest.mark.parametrize("credential", ["", "Bearer stale"])
def test_an_anonymous_request_is_401_and_claims_no_key(post: Make, credential: str) -> None:
    assert post(credential=credential).status_code == 401
    assert not KeyedRequest.objects.exists()


def test_responses_with_credentials_are_never_stored(post: Make) -> None:
    assert post("/secrets").json() != post("/secrets").json()
    assert not KeyedRequest.objects.exists()


def test_a_repeated_answer_costs_nothing_of_the_routes_own_limit(post: Make) -> None:
    assert [post("/limited").status_code for _ in range(5)] == [201] * 5
    assert post("/limited", key="l").status_code == 201
    assert post("/limited", key="m").status_code == 429


def test_after_a_day_a_key_is_new_and_old_ones_are_forgotten(post: Make) -> None:
    post(), post(key="other")
    KeyedRequest.objects.update(created_at=timezone.now() - timedelta(hours=24, seconds=1))
    answer = post(a="another body")
    assert answer.status_code == 201
    assert "Idempotent-Replayed" not in answer.headers
    assert KeyedRequest.objects.count() == 1


def test_above_a_users_limit_the_oldest_responses_are_discarded_and_nothing_is_repeated(
    post: Make, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "STORAGE_CHECK_INTERVAL", 1)
    other = bearer(make_user("eve@example.com"))
    first = post(key="0")
    settings.MAX_IDEMPOTENT_RESPONSE_BYTES_PER_USER = 3 * len(first.content) + 2
    assert [post(key="0", credential=other).status_code, *(post(key=str(key)).status_code for key in range(1, 4))] == (
        [201] * 4
    )
    gone = post(key="0")
    assert gone.status_code == 422
    assert "no longer stored" in gone.json()["errors"]["Idempotency-Key"][0]
    for again in (post(key="0", credential=other), *(post(key=str(key)) for key in range(1, 4))):
        assert (again.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")
    assert how_many() == 5


def send_files(credential: str, content: bytes, title: str = "t") -> Any:
    """Django's test client always uses the same boundary; other clients use a new one."""
    boundary = uuid.uuid4().hex
    parts = [f'Content-Disposition: form-data; name="title"\r\n\r\n{title}'.encode()]
    parts.append(b'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n' + content)
    body = b"".join(b"--" + boundary.encode() + b"\r\n" + part + b"\r\n" for part in parts)
    headers = {"Authorization": credential, "Idempotency-Key": "files"}
    kind = f"multipart/form-data; boundary={boundary}"
    return Client().post("/files", body + f"--{boundary}--\r\n".encode(), content_type=kind, headers=headers)


def test_files_are_compared_by_content_and_not_by_boundary(post: Make) -> None:
    credential = bearer(make_user("eve@example.com"))
    first, second = send_files(credential, b"one"), send_files(credential, b"one")
    assert first.json() == second.json() == ["t", "one"]
    assert second.headers["Idempotent-Replayed"] == "true"
    assert send_files(credential, b"two").status_code == send_files(credential, b"one", title="u").status_code == 422
    assert how_many() == 1


def test_a_form_that_cannot_be_read_is_the_views_to_refuse(post: Make) -> None:
    headers = {"Authorization": bearer(make_user("eve@example.com")), "Idempotency-Key": "files"}
    for body in (b"no form at all", b"--x\r\nhalf"):
        answer = Client().post("/files", body, content_type="multipart/form-data; boundary=x", headers=headers)
        assert answer.status_code in (400, 422, 500)
        assert how_many() == 0


@pytest.mark.django_db(transaction=True)
def test_through_the_server_entry_a_large_form_is_read_once_for_the_key_and_once_for_the_view() -> None:
    credential = bearer(make_user("eve@example.com"))
    content = b"x" * 3_000_000

    async def send_twice() -> list[Any]:
        headers = {"Authorization": credential, "Idempotency-Key": "large"}
        given = [{"title": "t", "file": SimpleUploadedFile("a.txt", content)} for _ in range(2)]
        answers = [await AsyncClient().post("/files", files, headers=headers) for files in given]
        await sync_to_async(connections.close_all)()  # connections of the thread, which outlives this test
        return answers

    first, second = asyncio.run(send_twice())
    assert first.json() == second.json() == ["t", content.decode()]
    assert second.headers["Idempotent-Replayed"] == "true"
    assert how_many() == 1


@pytest.mark.django_db(transaction=True)
def test_through_the_server_entry_the_view_and_its_key_share_a_transaction() -> None:
    credential = bearer(make_user("eve@example.com"))

    async def send(**body: Any) -> Any:
        headers = {"Authorization": credential, "Idempotency-Key": "k"}
        client = AsyncClient(raise_request_exception=False)
        answer = await client.post("/things", body, content_type="application/json", headers=headers)
        await sync_to_async(connections.close_all)()
        return answer

    assert asyncio.run(send(then="break")).status_code == 500
    assert how_many() == 0
    assert asyncio.run(send()).content == asyncio.run(send()).content
    assert how_many() == 1


@pytest.fixture
def slow_view(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event that the view waits for before it responds."""
    event = threading.Event()
    monkeypatch.setattr(ThingsView, "before_answer", staticmethod(lambda: event.wait(30)))
    return event


def in_threads(*calls: Callable[[], HttpResponse]) -> list[Any]:
    def run(call: Callable[[], HttpResponse]) -> HttpResponse:
        try:
            return call()
        finally:
            connection.close()

    pool = ThreadPoolExecutor(len(calls))
    return [pool.submit(run, call) for call in calls]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/things", "/slow-things"])
def test_one_of_two_concurrent_requests_runs_and_the_other_waits_for_its_response(
    post: Make, slow_view: threading.Event, path: str
) -> None:
    calls = in_threads(lambda: post(path), lambda: post(path))
    time.sleep(0.5)
    assert not any(call.done() for call in calls)
    slow_view.set()
    answers = [call.result(60) for call in calls]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].content == answers[1].content
    assert how_many() == 1


@pytest.mark.django_db(transaction=True)
def test_a_wait_that_takes_too_long_is_409_with_retry_after(
    post: Make, slow_view: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_WAIT_SECONDS", 0.2)
    calls = in_threads(lambda: post("/slow-things"), lambda: post("/slow-things"))
    deadline = time.monotonic() + 60
    while not any(call.done() for call in calls) and time.monotonic() < deadline:
        time.sleep(0.02)
    slow_view.set()
    answers = sorted((call.result(60) for call in calls), key=lambda answer: answer.status_code)
    assert [answer.status_code for answer in answers] == [201, 409]
    assert answers[1].headers["Retry-After"] == "5"
    assert how_many() == 1


@pytest.mark.django_db(transaction=True)
def test_one_of_ten_concurrent_requests_runs(post: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_WAIT_SECONDS", 60.0)
    answers = [call.result(100) for call in in_threads(*[post] * 10)]
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert how_many() == 1


@pytest.mark.django_db(transaction=True)
def test_n2_waiting_requests_hold_no_connection_and_those_past_the_cap_are_409_at_once(
    slow_view: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_WAIT_SECONDS", 60.0)
    headers = {b"authorization": bearer(make_user("ada@example.com")).encode(), b"idempotency-key": b"k"}
    connection.close()  # this thread's own
    opened: list[Any] = []

    def add(connection: Any, **rest: Any) -> None:
        opened.append(connection)

    async def send_all() -> tuple[list[int], int]:
        application = ThreadReuseMiddleware(ConnectionReleasingHandler())
        first = asyncio.create_task(post_to(application, "/slow-things", headers))
        await asyncio.sleep(0.5)
        others = [asyncio.create_task(post_to(application, "/slow-things", headers)) for _ in range(40)]
        in_use: list[int] = []
        while sum(other.done() for other in others) < 24 or len(in_use) < 100:
            in_use.append(sum(1 for one in opened if one.connection is not None and one.vendor != "sqlite"))
            await asyncio.sleep(0.02)
        assert not first.done()
        slow_view.set()
        return sorted([await first, *[await other for other in others]]), min(in_use)

    connection_created.connect(add)
    try:
        statuses, in_use = asyncio.run(send_all())
    finally:
        connection_created.disconnect(add)
    assert statuses == [201] * 17 + [409] * 24
    assert in_use == (0 if connection.vendor == "sqlite" else 1), "that of the first request, which runs"
    assert how_many() == 1


def test_n2_one_user_has_64_requests_waiting_over_all_keys() -> None:
    with ExitStack() as waiting:
        for number in range(64):
            waiting.enter_context(store.key_waiters.wait(scope=f"key {number}", user_id=1))
        with pytest.raises(ApiError) as refused:
            waiting.enter_context(store.key_waiters.wait(scope="another", user_id=1))
        assert (refused.value.problem.status, refused.value.problem.headers["Retry-After"]) == (409, "5")
        waiting.enter_context(store.key_waiters.wait(scope="another", user_id=2))
    waiting.enter_context(store.key_waiters.wait(scope="another", user_id=1))
    waiting.close()


async def post_to(application: Any, path: str, headers: dict[bytes, bytes]) -> int:
    """POST an empty object through the server's entry point, and return the status of the response."""
    events = [{"type": "http.request", "body": b"{}", "more_body": False}]
    statuses: list[int] = []

    async def receive() -> Any:
        return events.pop() if events else await asyncio.sleep(120)

    async def send(event: Any) -> None:
        if event["type"] == "http.response.start":
            statuses.append(event["status"])

    given = {b"host": b"testserver", b"content-type": b"application/json", b"content-length": b"2"} | headers
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": list(given.items())}
    await application(scope, receive, send)
    return statuses[0]


def claim(now: Any) -> KeyedRequest | None:
    return try_claim_key(scope="s" * 64, fingerprint="f" * 64, now=now)


def claimed(now: Any) -> KeyedRequest:
    row = claim(now)
    assert row is not None
    return row


def test_a_key_whose_run_died_can_be_claimed_again_after_a_while() -> None:
    now = timezone.now()
    dead = claimed(now)
    assert claim(now + timedelta(seconds=44)) is None
    late = claimed(now + timedelta(seconds=46))
    assert (late.pk, late.owner != dead.owner) == (dead.pk, True)
    with pytest.raises(ApiError, match="replaced it"):
        store_response(row=dead, response=HttpResponse())
    assert renew_claim(row=late, now=now + timedelta(seconds=80))
    assert claim(now + timedelta(seconds=120)) is None


@pytest.mark.django_db(transaction=True)
def test_a_run_that_lost_its_key_is_rolled_back(post: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_the_key() -> None:
        KeyedRequest.objects.update(owner=uuid.uuid4())

    monkeypatch.setattr(ThingsView, "before_answer", staticmethod(lose_the_key))
    assert post().status_code == 409
    assert how_many() == 0


def test_a_late_run_writes_no_answer() -> None:
    now = timezone.now()
    dead = claimed(now)
    claimed(now + timedelta(minutes=3))
    with pytest.raises(ApiError):
        store_response(row=dead, response=HttpResponse(b"late"))
    assert KeyedRequest.objects.get().status is None


@pytest.mark.django_db(transaction=True)
def test_n2_a_request_whose_credential_is_still_read_delays_no_other(post: Make, monkeypatch: Any) -> None:
    authenticate, is_reading, may_go_on = idempotency.authenticate, threading.Event(), threading.Event()
    slow, fast = bearer(make_user("slow@example.com")), bearer(make_user("fast@example.com"))

    def authenticate_slowly(credential: str) -> Any:
        if f"Bearer {credential}" == slow:
            is_reading.set()
            assert may_go_on.wait(30)
        return authenticate(credential)

    monkeypatch.setattr(idempotency, "authenticate", authenticate_slowly)
    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(post, credential=slow)
        assert is_reading.wait(30)
        other = threads.submit(post, credential=fast)
        try:
            assert other.result(timeout=10).status_code == 201
        finally:
            may_go_on.set()
        assert waiting.result(timeout=30).status_code == 201
