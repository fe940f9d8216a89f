"""Row N1: no response is sent while its request holds a pooled connection or a thread.

A connection to SQLite is of no pool, and stays open in the thread that the request has returned.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.db.backends.signals import connection_created
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from pytest_django import Settings

from shared.accounts.models import User
from shared.request_threads import response_chunks
from shared.serving.asgi import turns
from shared.serving.asgi.handler import ConnectionReleasingHandler
from shared.serving.asgi.refusals import CLIENT_KEY
from shared.serving.asgi.threads import ThreadReuseMiddleware
from shared.serving.asgi.types import Event

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.each_database]


def whole(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(User.objects.count()))


may_go_on = threading.Event()


def hold(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(_count_and_wait()))


def _count_and_wait() -> int:
    count = User.objects.count()
    assert may_go_on.wait(30)
    return count


async def use_database_twice(scope: Any, receive: Any, send: Any) -> None:
    for _ in range(2):
        await sync_to_async(_count_and_wait)()


async def whole_async(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(await User.objects.acount()))


def stream(request: HttpRequest) -> StreamingHttpResponse:
    User.objects.count()
    return StreamingHttpResponse(response_chunks(request, _chunks()))


def _chunks() -> Iterator[str]:
    for _ in range(3):
        yield str(User.objects.count())


urlpatterns = [path("whole", whole), path("whole-async", whole_async), path("stream", stream), path("hold", hold)]


@pytest.fixture
def opened(settings: Settings) -> Iterator[list[Any]]:
    """The connections that the requests of the test have opened."""
    settings.ROOT_URLCONF, settings.MIDDLEWARE = __name__, []
    found: list[Any] = []

    def add(connection: Any, **rest: Any) -> None:
        found.append(connection)

    connection_created.connect(add)
    yield found
    connection_created.disconnect(add)


class Reader:
    """A client that takes each event only when it is told to."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.waits = asyncio.Event()
        self._takes = asyncio.Semaphore(0)

    async def send(self, event: Event) -> None:
        self.waits.set()
        await self._takes.acquire()
        self.events.append(event)

    async def read_one(self) -> None:
        """Wait until the server sends, look nowhere, and take what it sends."""
        await asyncio.wait_for(self.waits.wait(), 30)
        self.waits.clear()
        self._takes.release()


@pytest.mark.parametrize(("url", "events"), [("/whole", 2), ("/whole-async", 2), ("/stream", 5)])
def test_n1_a_reader_that_reads_nothing_holds_neither_connection_nor_thread(opened: list[Any], url: str, events: int):
    async def ask() -> bytes:
        application = ThreadReuseMiddleware(ConnectionReleasingHandler())
        scope = {"type": "http", "method": "GET", "path": url, "query_string": b"", "headers": []}
        requests = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Event:
            if requests:
                return requests.pop()
            await asyncio.sleep(60)
            return {"type": "http.disconnect"}

        reader = Reader()
        asked = asyncio.create_task(application(scope, receive, reader.send))
        for number in range(events):
            await asyncio.wait_for(reader.waits.wait(), 30)
            assert opened, "the request has used a connection"
            assert [one for one in opened if one.connection is not None and one.vendor != "sqlite"] == []
            if number == 0 and url != "/stream":
                assert await _eventually(lambda: len(application._idle) == 1)
            await reader.read_one()
        await asyncio.wait_for(asked, 30)
        return b"".join(event.get("body", b"") for event in reader.events)

    connection.close()  # this thread's own
    assert asyncio.run(ask()) == (b"000" if url == "/stream" else b"0")


def test_a_read_whose_client_leaves_before_its_turn_is_not_computed(
    opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 60.0)

    async def ask() -> list[Event]:
        application = ThreadReuseMiddleware(ConnectionReleasingHandler())
        for client in ("user:1", "user:2"):  # each has a call that runs
            turns.client_turns.enter(client, lambda call: None)
        scope = {"type": "http", "method": "GET", "path": "/whole", "query_string": b"", "headers": []}
        came = iter([{"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"}])
        sent: list[Event] = []

        async def receive() -> Event:
            return next(came)

        async def send(event: Event) -> None:
            sent.append(event)

        await asyncio.wait_for(application(scope | {CLIENT_KEY: "user:1"}, receive, send), 30)
        return sent

    connection.close()  # this thread's own
    assert asyncio.run(ask()) == []
    assert opened == []


@pytest.mark.parametrize("call", ["another call", "response"])
def test_n1_a_request_that_waits_for_its_turn_holds_no_connection(
    opened: list[Any], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Ten POSTs held the connections that the call whose turn it was waited for."""

    async def ask() -> None:
        application = ThreadReuseMiddleware(
            use_database_twice if call == "another call" else ConnectionReleasingHandler()
        )
        scope = {"type": "http", "method": "POST", "path": "/hold", "query_string": b"", "headers": []}
        bodies = [{"type": "http.request", "body": b"", "more_body": False}]
        sent: list[Event] = []

        async def receive() -> Event:
            if bodies:
                return bodies.pop()
            return await asyncio.Future()

        async def send(event: Event) -> None:
            sent.append(event)

        asked = asyncio.create_task(application(scope | {CLIENT_KEY: "user:1"}, receive, send))
        assert await _eventually(lambda: bool(opened))
        turns.client_turns.enter("user:2", lambda call: None)
        monkeypatch.setattr(turns, "PAUSE_SECONDS", 60.0)
        client = turns.client_turns._clients["user:1"]
        client.running.append(turns.Call())  # so that its next one waits
        may_go_on.set()
        if call == "response":
            assert await _eventually(lambda: len(sent) == 2)
        assert await _eventually(lambda: all(one.connection is None or one.vendor == "sqlite" for one in opened))
        client.running.clear()
        await asyncio.wait_for(asked, 30)

    connection.close()  # this thread's own
    may_go_on.clear()
    asyncio.run(ask())


async def _eventually(is_so: Any) -> bool:
    for _ in range(300):
        if is_so():
            return True
        await asyncio.sleep(0.01)
    return False
