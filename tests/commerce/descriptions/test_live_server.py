"""Tests of descriptions from a real server: streaming, disconnects and concurrency."""

import asyncio
import json
import time
from collections.abc import Iterator

import httpx2
import pytest

from commerce.descriptions.provider.client import MAX_CONCURRENT_CALLS
from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.commerce.live_server import ServedShop, served_shop

pytestmark = pytest.mark.no_database

VELMO = {"product_name": "Velmo lamp"}


@pytest.fixture(scope="module")
def provider() -> Iterator[ProviderServer]:
    server = ProviderServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shop(provider: ProviderServer) -> Iterator[ServedShop]:
    with served_shop(provider_url=provider.url("selected")) as served:
        yield served


@pytest.fixture(scope="module")
def owner(shop: ServedShop) -> dict[str, str]:
    return shop.headers("STORE_OWNER")


def client(shop: ServedShop, headers: dict[str, str]) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None)
    return httpx2.AsyncClient(base_url=shop.url, headers=headers, timeout=30, limits=limits)


async def test_pieces_arrive_while_the_provider_writes_and_a_disconnect_stops_it(
    shop: ServedShop, owner: dict[str, str], provider: ProviderServer
):
    provider.selected = "endless_text"
    for _ in range(3):
        async with (
            client(shop, owner) as http,
            http.stream(
                "POST", "/api/generate-descriptions", json={"prompt": "Introduce the lamp.", "stream": True}
            ) as response,
        ):
            assert response.headers["content-type"] == "text/event-stream"
            lines = response.aiter_lines()
            assert json.loads((await anext(lines)).removeprefix("data: ")) == {"text": " word"}
        assert await provider.client_disconnected()


async def test_disconnect_before_the_response_stops_the_provider(
    shop: ServedShop, owner: dict[str, str], provider: ProviderServer
):
    provider.selected = "silent"
    call_count = len(provider.requests)
    async with client(shop, owner) as http:
        request = asyncio.ensure_future(http.post("/api/generate-descriptions", json=VELMO))
        await asyncio.to_thread(provider.wait_for_requests, call_count + 1)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)

    assert await provider.client_disconnected()


async def test_c6_slow_provider_does_not_delay_other_requests(
    shop: ServedShop, owner: dict[str, str], provider: ProviderServer
):
    provider.selected = "silent"
    call_count = len(provider.requests)
    async with client(shop, owner) as http:
        pending = [
            asyncio.ensure_future(http.post("/api/generate-descriptions", json=VELMO))
            for _ in range(MAX_CONCURRENT_CALLS)
        ]
        await asyncio.to_thread(provider.wait_for_requests, call_count + MAX_CONCURRENT_CALLS)

        started = time.monotonic()
        assert (await http.get("/api/me")).status_code == 200
        assert (await http.get("/livez")).status_code == 200
        response = await http.post("/api/generate-descriptions", json=VELMO)
        assert time.monotonic() - started < 10
        assert (response.status_code, response.json()["code"]) == (503, "unavailable")
        assert response.headers["Retry-After"] == "5"
        for request in pending:
            request.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    for _ in range(MAX_CONCURRENT_CALLS):
        assert await provider.client_disconnected()

    provider.selected = "good"
    async with client(shop, owner) as http:
        assert (await http.post("/api/generate-descriptions", json=VELMO)).status_code == 200


async def test_o3_log_has_no_key_prompt_or_text(shop: ServedShop, owner: dict[str, str], provider: ProviderServer):
    async with client(shop, owner) as http:
        for provider.selected in ("good", "error_500"):
            await http.post("/api/generate-descriptions", json={"product_name": "canary-product"})

    log = shop.log.read_text()
    assert "description_provider_failed" in log
    for secret in ("canary", "Velmo", "sk-", "glows", owner["Authorization"][10:]):
        assert secret not in log
    assert all(json.loads(line) for line in log.splitlines())
