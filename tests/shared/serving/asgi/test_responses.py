"""CORS headers of errors that never reach Django."""

import asyncio

import pytest
from pytest_django import Settings

from shared.api.errors import Problem
from shared.serving.asgi.responses import ResponseSender
from shared.serving.asgi.types import Event

STOREFRONT = "https://storefront.example"


@pytest.fixture(autouse=True)
def _named(settings: Settings) -> None:
    settings.CORS_ALLOWED_ORIGINS = [STOREFRONT]


def refused(origin: str) -> dict[bytes, bytes]:
    sent: list[Event] = []

    async def send(event: Event) -> None:
        sent.append(event)

    answer = ResponseSender(send, path="/api/types", request_id="req_1", origin=origin)
    asyncio.run(answer.send_problem(Problem.from_status(429, headers={"Retry-After": "60"})))
    return dict(sent[0]["headers"])


def test_a_page_of_an_allowed_origin_may_read_a_refusal():
    headers = refused(STOREFRONT)

    assert headers[b"access-control-allow-origin"] == STOREFRONT.encode()
    assert b"Retry-After" in headers[b"access-control-expose-headers"]
    assert (headers[b"retry-after"], headers[b"vary"]) == (b"60", b"origin")


@pytest.mark.parametrize("origin", ["", "null", "https://evil.example", "https://storefront.example.evil.example"])
def test_pages_of_other_origins_may_not(origin: str):
    assert b"access-control-allow-origin" not in refused(origin)
