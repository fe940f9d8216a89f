"""Read replicas: who has written, while Redis fails, and the check of a replica. `tests/faults` has real replicas."""

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from pytest_django import Settings

from shared import replicas
from shared.replicas import RecentWrites, Replica, ReplicaMiddleware, ReplicaRouter
from shared.serving.processes.local_redis import LocalRedis, redis_url

pytestmark = pytest.mark.no_database


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stoa") as path:
        yield Path(path)


def test_a_write_that_redis_has_missed_counts_as_long_as_the_others(
    folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    settings.REPLICA_MAX_LAG_SECONDS = 60
    monkeypatch.setattr(replicas, "PAUSE_SECONDS", 0.01)
    writes = RecentWrites(redis_url(folder))
    writes.note("client")
    with LocalRedis(folder):
        time.sleep(0.02)
        assert writes.include("client")
        other_process = RecentWrites(redis_url(folder))
        assert not other_process.include("client")
        writes.note("client")
        assert other_process.include("client")


def test_writes_do_not_wait_for_a_redis_that_has_just_failed():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        writes = RecentWrites(f"redis://127.0.0.1:{silent.getsockname()[1]}")
        for _ in range(5):
            writes.note("client")
            assert writes.include("client")
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):  # it was asked once
            silent.accept()[0].close()


def test_a_replica_has_what_the_primary_had_within_the_lag_also_after_nobody_has_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    settings.REPLICA_MAX_LAG_SECONDS = 5
    now, primary, replayed = 100, 10, 10
    monkeypatch.setattr(replicas, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(
        replicas, "_position", lambda alias, statement: Decimal(replayed if alias == "replica-1" else primary)
    )
    replica = Replica("replica-1")
    assert replica.is_usable()
    now, primary, replayed = 200, 20, 15
    assert not replica.is_usable()
    for now in range(202, 206):
        primary, replayed = now, 20
        assert replica.is_usable()
    now, primary = 206, 300
    assert not replica.is_usable()


def test_reads_do_not_wait_while_another_one_checks_a_replica(monkeypatch: pytest.MonkeyPatch):
    is_asked, may_answer = threading.Event(), threading.Event()

    def read_position(alias: str, statement: str) -> Decimal:
        if alias == "replica-1":
            is_asked.set()
            may_answer.wait(5)
        return Decimal(1)

    monkeypatch.setattr(replicas, "_position", read_position)
    replica = Replica("replica-1")
    with ThreadPoolExecutor(1) as other:
        check = other.submit(replica.is_usable)
        assert is_asked.wait(30)
        assert not replica.is_usable()
        may_answer.set()
        assert check.result()
    assert replica.is_usable()


def test_the_primary_answers_a_read_that_a_replica_could_not_though_it_answers_again(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(replicas, "_choose_database", lambda: "replica-1")
    monkeypatch.setattr(replicas, "connections", {"default": connection, "replica-1": connection})
    monkeypatch.setattr(replicas, "_position", lambda alias, statement: Decimal(1))
    model: Any = SimpleNamespace(_meta=SimpleNamespace(app_label="catalog"))

    def answer(request: HttpRequest) -> HttpResponse:
        database = ReplicaRouter().db_for_read(model)
        return HttpResponse(database, status=503 if database == "replica-1" else 200)

    response: Any = ReplicaMiddleware(answer)(RequestFactory().get("/"))
    assert (response.status_code, response.content) == (200, b"default")
