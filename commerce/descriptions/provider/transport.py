"""HTTP transport with limits: no redirects, no compression, a maximum response size."""

import ssl
from collections.abc import AsyncIterator
from typing import cast

import httpx2

MAX_RESPONSE_BYTES = 1024 * 1024
CONNECT_TIMEOUT_SECONDS = 5.0


class ResponseTooLarge(httpx2.TransportError):
    """A response over the maximum size, or a compressed one, whose size is unknown."""


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        remaining = MAX_RESPONSE_BYTES
        async for chunk in self._stream:
            remaining -= len(chunk)
            if remaining < 0:
                raise ResponseTooLarge(f"more than {MAX_RESPONSE_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class LimitedTransport(httpx2.AsyncHTTPTransport):
    """Transport that ends a response after MAX_RESPONSE_BYTES and refuses a compressed one."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            await response.aclose()
            raise ResponseTooLarge("compressed in spite of Accept-Encoding: identity")
        response.stream = _LimitedStream(cast(httpx2.AsyncByteStream, response.stream))
        return response


def http_client(ssl_context: ssl.SSLContext, *, timeout_seconds: float) -> httpx2.AsyncClient:
    """Return a client for one call. The timeout bounds each read and write, not the whole call."""
    return httpx2.AsyncClient(
        transport=LimitedTransport(verify=ssl_context),
        timeout=httpx2.Timeout(timeout_seconds, connect=CONNECT_TIMEOUT_SECONDS),
        follow_redirects=False,
    )
