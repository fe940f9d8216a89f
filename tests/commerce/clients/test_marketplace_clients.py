"""Front ends of a Laravel marketplace work against the shop: each call is answered with what the front end reads."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from commerce.orders.models import Order
from tests.commerce.clients.marketplace_calls import PANEL, STOREFRONT, Call
from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.commerce.routes.scenario import World, make_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(settings: Any) -> Iterator[World]:
    provider = ProviderServer()
    provider.start()
    settings.DESCRIPTIONS_BASE_URL = provider.url("bad")
    world = make_world()
    world.names["tracking_number"] = Order.objects.get(pk=world.names["order"]).tracking_number
    yield world
    provider.stop()


def test_the_120_calls_are_different():
    calls = [*STOREFRONT, *PANEL]

    assert len(calls) >= 120
    assert len({(call.user, call.operation, json.dumps(call.body)) for call in calls}) == len(calls)


@pytest.mark.parametrize("calls", [STOREFRONT, PANEL], ids=["storefront", "panel"])
def test_every_call_of_a_front_end_is_answered_with_what_it_reads(world: World, calls: list[Call]):
    wrong = {call.operation: problem for call in calls if (problem := _problem(world, call))}

    assert wrong == {}


def _problem(world: World, call: Call) -> str:
    """Send a call and undo it. Return what is wrong with the answer."""
    with transaction.atomic():
        answer: Any = world.request(call.user, call.method, call.path, call.body)
        transaction.set_rollback(True)
    if answer.status_code != call.status:
        return f"{answer.status_code} instead of {call.status}: {answer.content[:300]!r}"
    if answer.headers["Content-Type"].startswith("text/csv"):
        return ""
    body = answer.json()
    reads = call.reads if call.status < 400 else "message code request_id"
    return ", ".join(name for name in reads.split() if not _has(body, name.split(".")))


def _has(value: Any, names: list[str]) -> bool:
    """Return whether a value is at this path; None is one."""
    for name in names:
        if isinstance(value, list):
            if int(name) >= len(value):
                return False
            value = value[int(name)]
        elif not isinstance(value, dict) or name not in value:
            return False
        else:
            value = value[name]
    return True
