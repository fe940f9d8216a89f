"""Liveness and readiness, asked as a load balancer asks."""

import asyncio
import json
import threading
import time

import pytest
from asgiref.sync import async_to_sync
from django.http import JsonResponse
from django.test import RequestFactory

from shared.observability import health


async def passes() -> None:
    pass


async def fails() -> None:
    raise OSError("secret host name")


async def hangs() -> None:
    await asyncio.sleep(60)


def ask(**checks: health.Check) -> JsonResponse:
    return async_to_sync(health.readyz(**checks))(RequestFactory().get("/readyz"))


@pytest.fixture
def draining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_draining", threading.Event())
    health.start_draining()


def test_ready_when_all_that_is_needed_answers():
    answer = ask(one=passes, other=passes)
    assert answer.status_code == 200
    assert json.loads(answer.content) == {"status": "ready", "checks": {"one": "ok", "other": "ok"}}


def test_not_ready_when_one_fails_and_the_reason_stays_inside():
    answer = ask(one=passes, other=fails)
    assert answer.status_code == 503
    assert int(answer["Retry-After"]) > 0
    assert json.loads(answer.content) == {"status": "not_ready", "checks": {"one": "ok", "other": "failed"}}


def test_o6_a_check_that_hangs_counts_as_failed_in_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "CHECK_TIMEOUT_S", 0.1)
    began = time.monotonic()
    assert ask(stuck=hangs, one=passes).status_code == 503
    assert time.monotonic() - began < 5


async def test_o6_a_check_that_hangs_is_not_started_again_and_ready_comes_back_with_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "CHECK_TIMEOUT_S", 0.05)
    answers, started = asyncio.Event(), []

    async def stuck() -> None:
        started.append(True)
        await answers.wait()

    view = health.readyz(stuck=stuck)
    statuses = [(await view(RequestFactory().get("/readyz"))).status_code for _ in range(5)]
    assert (statuses, len(started)) == ([503] * 5, 1)
    answers.set()
    await asyncio.sleep(0)
    assert (await view(RequestFactory().get("/readyz"))).status_code == 200


@pytest.mark.usefixtures("draining")
def test_alive_but_not_ready_while_draining():
    assert ask(one=passes).status_code == 503
    assert async_to_sync(health.livez)(RequestFactory().get("/livez")).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_the_database_that_answers_is_ready():
    assert ask(database=health.check_database).status_code == 200
