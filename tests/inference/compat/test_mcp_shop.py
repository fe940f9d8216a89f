"""The product search of /mcp against shops that answer, refuse, send nonsense or cannot be reached."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pytest_django import Settings

from inference.compat.mcp import shop
from inference.compat.mcp.server import offered_tools
from inference.protocol.mcp.tools import FoundProduct, SearchProductsArguments
from shared.api.errors import ApiError

LAMP = {
    "id": 3, "name": "Velmo lamp", "slug": "velmo-lamp", "description": "x" * 400, "min_price": 12.5, "price": 15.0,
    "currency": "EUR", "in_stock": True, "shop_id": 2,
}  # fmt: skip


class Shop(BaseHTTPRequestHandler):
    """A shop with one response, which notes the path and the headers of each request."""

    status = 200
    body = b""
    requests: list[tuple[str, dict[str, str]]]

    def do_GET(self) -> None:
        self.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def answering(settings: Settings) -> Iterator[type[Shop]]:
    handler: Any = type("Handler", (Shop,), {"requests": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        settings.SHOP_URL = f"http://127.0.0.1:{server.server_port}/"
        yield handler
        server.shutdown()
        thread.join()


async def search() -> Any:
    return await shop.search_shop(SearchProductsArguments(query="brass lamp&limit=9", limit=2, language="de"))


async def test_products_are_found_by_public_search_without_a_key(answering: type[Shop]):
    answering.body = json.dumps({"data": [LAMP], "total": 7, "per_page": 2}).encode()
    found = await search()

    assert found.total == 7
    assert found.products == [FoundProduct(3, "Velmo lamp", "velmo-lamp", "x" * 300, 12.5, "EUR", True, 2)]
    [(path, headers)] = answering.requests
    assert path == "/api/products/search?q=brass+lamp%26limit%3D9&limit=2&language=de"
    assert "authorization" not in headers


async def test_what_the_shop_refuses_is_told(answering: type[Shop]):
    answering.status, answering.body = 422, b'{"message": "Send fewer or rarer words."}'
    with pytest.raises(ApiError, match="Send fewer or rarer words") as refused:
        await search()
    assert refused.value.problem.status == 400


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b"{}"), (302, b""), (200, b"<html>"), (200, b'{"data": 3}'), (422, b"[]"), (200, b" " * 5_000_000)],
    ids=["error", "redirect", "page", "shape", "refusal", "large"],
)
async def test_a_shop_that_does_not_answer_as_one_is_unavailable(answering: type[Shop], status: int, body: bytes):
    answering.status, answering.body = status, body
    with pytest.raises(ApiError, match="The shop does not answer") as unavailable:
        await search()
    assert unavailable.value.problem.status == 503


async def test_a_shop_that_cannot_be_reached_is_unavailable(settings: Settings):
    settings.SHOP_URL = "http://127.0.0.1:9"
    with pytest.raises(ApiError, match="The shop does not answer"):
        await search()


def test_products_are_searched_only_if_the_operator_has_named_a_shop(settings: Settings):
    settings.SHOP_URL = ""
    assert "search_products" not in offered_tools()
    settings.SHOP_URL = "http://127.0.0.1:8000"
    assert "search_products" in offered_tools()
