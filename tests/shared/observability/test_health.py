"""Liveness and readiness, as load balancers request them."""

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


def test_ready_if_all_checks_pass():
    answer = ask(one=passes, other=passes)
    assert answer.status_code == 200
    assert json.loads(answer.content) == {"status": "ready", "checks": {"one": "ok", "other": "ok"}}


def test_not_ready_if_one_check_fails_and_the_reason_is_not_shown():
    answer = ask(one=passes, other=fails)
    assert answer.status_code == 503
    assert int(answer["Retry-After"]) > 0
    assert json.loads(answer.content) == {"status": "not_ready", "checks": {"one": "ok", "other": "failed"}}


def test_o6_a_hanging_check_fails_after_its_timeout(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "CHECK_TIMEOUT_S", 0.1)
    began = time.monotonic()
    assert ask(stuck=hangs, one=passes).status_code == 503
    assert time.monotonic() - began < 5


async def test_o6_a_hanging_check_is_not_started_again_and_readiness_returns_with_it(monkeypatch: pytest.MonkeyPatch):
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
