"""The wire to the provider, with bounds: no redirects, no compression, no endless answer."""

import ssl
from collections.abc import AsyncIterator
from typing import cast

import httpx2

MOST_BYTES = 1024 * 1024
CONNECT_S = 5.0


class AnswerTooLarge(httpx2.TransportError):
    """The provider sent more than any description needs, or packed it so that nobody knows how much it is."""


class _CappedBody(httpx2.AsyncByteStream):
    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        room = MOST_BYTES
        async for piece in self._body:
            room -= len(piece)
            if room < 0:
                raise AnswerTooLarge(f"more than {MOST_BYTES} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


class CappedTransport(httpx2.AsyncHTTPTransport):
    """Ends an answer after `MOST_BYTES`, and refuses a compressed one, which could unpack to any size."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            await response.aclose()
            raise AnswerTooLarge("compressed, though asked not to be")
        response.stream = _CappedBody(cast(httpx2.AsyncByteStream, response.stream))
        return response


def http_client(ssl_context: ssl.SSLContext, *, limit_s: float) -> httpx2.AsyncClient:
    """A client for one call. `limit_s` bounds each wait on the wire; the caller bounds the whole."""
    return httpx2.AsyncClient(
        transport=CappedTransport(verify=ssl_context),
        timeout=httpx2.Timeout(limit_s, connect=CONNECT_S),
        follow_redirects=False,
    )
