"""Search in the products of the shop, which is a server of its own. Its answers are public, so no key is sent."""

import asyncio
from typing import Annotated

import httpx2
import msgspec
import structlog
from django.conf import settings
from msgspec import Meta, Struct

from inference.protocol.mcp.tools import FoundProduct, FoundProductsResult, SearchProductsArguments
from shared.api.errors import ApiError

SEARCH_PATH = "/api/products/search"
TIMEOUT_SECONDS = 10.0
MAX_RESPONSE_BYTES = 4 * 1024 * 1024
MAX_DESCRIPTION_LENGTH = 300

logger = structlog.get_logger(__name__)


class _Product(Struct):
    id: int
    name: str
    slug: str
    description: str | None
    min_price: float | None
    currency: str
    in_stock: bool
    shop_id: int


class _Page(Struct):
    data: list[_Product]
    total: Annotated[int, Meta(ge=0)]


async def search_shop(arguments: SearchProductsArguments) -> FoundProductsResult:
    """Return the best products. Raise ApiError 503 if the shop does not answer, or 400 with what it says is wrong."""
    parameters = {"q": arguments.query, "limit": str(arguments.limit), "language": arguments.language}
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            status, body = await _get(settings.SHOP_URL.rstrip("/") + SEARCH_PATH, parameters)
        if status == 422:
            raise ApiError(400, msgspec.json.decode(body, type=_Refusal).message)
        page = msgspec.json.decode(body, type=_Page)
    except (httpx2.HTTPError, OSError, msgspec.MsgspecError) as error:
        logger.warning("shop_unavailable", reason=type(error).__name__)
        raise ApiError(503, "The shop does not answer. Try again later.") from None
    products = [
        FoundProduct(
            id=one.id,
            name=one.name,
            slug=one.slug,
            description=(one.description or "")[:MAX_DESCRIPTION_LENGTH],
            price=one.min_price,
            currency=one.currency,
            in_stock=one.in_stock,
            shop_id=one.shop_id,
        )
        for one in page.data
    ]
    return FoundProductsResult(products, page.total)


class _Refusal(Struct):
    message: str


async def _get(url: str, parameters: dict[str, str]) -> tuple[int, bytes]:
    """Return the status and the body. Raise HTTPError for a body that is too large, and for unexpected statuses."""
    body = bytearray()
    async with (
        httpx2.AsyncClient(timeout=TIMEOUT_SECONDS) as client,
        client.stream("GET", url, params=parameters, headers={"Accept": "application/json"}) as response,
    ):
        if response.status_code not in (200, 422):
            raise httpx2.HTTPStatusError("unexpected status", request=response.request, response=response)
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_RESPONSE_BYTES:
                raise httpx2.DecodingError("too large", request=response.request)
    return response.status_code, bytes(body)
