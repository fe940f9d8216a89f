"""Descriptions from a real server: what only shows on a wire, and with many at once."""

import asyncio
import json
import time
from collections.abc import Iterator

import httpx2
import pytest

from commerce.descriptions.provider import AT_ONCE
from tests.commerce.descriptions.provider_server import ProviderServer
from tests.commerce.served import ServedShop, served_shop

VELMO = {"product_name": "Velmo lamp"}


@pytest.fixture(scope="module")
def provider() -> Iterator[ProviderServer]:
    server = ProviderServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shop(provider: ProviderServer) -> Iterator[ServedShop]:
    with served_shop(provider_url=provider.url("chosen")) as served:
        yield served


@pytest.fixture(scope="module")
def owner(shop: ServedShop) -> dict[str, str]:
    return shop.headers("STORE_OWNER")


def client(shop: ServedShop, headers: dict[str, str]) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None)
    return httpx2.AsyncClient(base_url=shop.url, headers=headers, timeout=30, limits=limits)


async def test_pieces_arrive_while_the_provider_still_writes_and_leaving_ends_its_work(
    shop: ServedShop, owner: dict[str, str], provider: ProviderServer
):
    provider.chosen = "endless_text"
    for _ in range(3):
        async with (
            client(shop, owner) as http,
            http.stream("POST", "/api/generate-descriptions", json=VELMO | {"stream": True}) as answer,
        ):
            assert answer.headers["content-type"] == "text/event-stream"
            lines = answer.aiter_lines()
            assert json.loads((await anext(lines)).removeprefix("data: ")) == {"text": " word"}
        assert await provider.client_left()


async def test_a_client_that_leaves_before_its_answer_ends_the_providers_work(
    shop: ServedShop, owner: dict[str, str], provider: ProviderServer
):
    provider.chosen = "silent"
    asked = len(provider.asked)
    async with client(shop, owner) as http:
        request = asyncio.ensure_future(http.post("/api/generate-descriptions", json=VELMO))
        await asyncio.to_thread(provider.wait_until_asked, asked + 1)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)

    assert await provider.client_left()


async def test_c6_a_slow_provider_holds_up_nothing_else(
    shop: ServedShop, owner: dict[str, str], provider: ProviderServer
):
    provider.chosen = "silent"
    asked = len(provider.asked)
    async with client(shop, owner) as http:
        waiting = [asyncio.ensure_future(http.post("/api/generate-descriptions", json=VELMO)) for _ in range(AT_ONCE)]
        await asyncio.to_thread(provider.wait_until_asked, asked + AT_ONCE)

        started = time.monotonic()
        assert (await http.get("/api/me")).status_code == 200
        assert (await http.get("/livez")).status_code == 200
        one_more = await http.post("/api/generate-descriptions", json=VELMO)
        assert time.monotonic() - started < 10
        assert (one_more.status_code, one_more.json()["code"]) == (503, "unavailable")
        assert one_more.headers["Retry-After"] == "5"
        for request in waiting:
            request.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    for _ in range(AT_ONCE):
        assert await provider.client_left()

    provider.chosen = "good"
    async with client(shop, owner) as http:
        assert (await http.post("/api/generate-descriptions", json=VELMO)).status_code == 200


async def test_o3_neither_key_nor_prompt_nor_text_is_in_the_log(
    shop: ServedShop, owner: dict[str, str], provider: ProviderServer
):
    async with client(shop, owner) as http:
        for provider.chosen in ("good", "error_500"):
            await http.post("/api/generate-descriptions", json={"product_name": "canary-product"})

    log = shop.log.read_text()
    assert "description_provider_failed" in log
    for secret in ("canary", "Velmo", "sk-", "glows", owner["Authorization"][10:]):
        assert secret not in log
    assert all(json.loads(line) for line in log.splitlines())
