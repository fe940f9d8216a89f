"""HTTP transport with limits: no redirects, no compression, a maximum response size."""

import ssl
import time
from collections.abc import AsyncIterator, Iterator
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


class _LimitedSyncStream(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, max_bytes: int, give_up_at: float) -> None:
        self._stream, self._max_bytes, self._give_up_at = stream, max_bytes, give_up_at

    def __iter__(self) -> Iterator[bytes]:
        remaining = self._max_bytes
        for chunk in self._stream:
            remaining -= len(chunk)
            if remaining < 0:
                raise ResponseTooLarge(f"more than {self._max_bytes} bytes")
            if time.monotonic() > self._give_up_at:
                raise httpx2.ReadTimeout("the response takes too long")
            yield chunk

    def close(self) -> None:
        self._stream.close()


class LimitedSyncTransport(httpx2.HTTPTransport):
    """Transport that ends a response after so many bytes or seconds, and refuses a compressed one."""

    def __init__(self, *, max_bytes: int, max_seconds: float) -> None:
        super().__init__()
        self._max_bytes, self._max_seconds = max_bytes, max_seconds

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        give_up_at = time.monotonic() + self._max_seconds
        request.headers["Accept-Encoding"] = "identity"
        response = super().handle_request(request)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            response.close()
            raise ResponseTooLarge("compressed in spite of Accept-Encoding: identity")
        stream = cast(httpx2.SyncByteStream, response.stream)
        response.stream = _LimitedSyncStream(stream, self._max_bytes, give_up_at)
        return response


def sync_http_client(*, timeout_seconds: float, max_bytes: int) -> httpx2.Client:
    """Return a client whose connections threads share. A response takes at most about twice the timeout."""
    return httpx2.Client(
        transport=LimitedSyncTransport(max_bytes=max_bytes, max_seconds=timeout_seconds),
        timeout=httpx2.Timeout(timeout_seconds, connect=min(timeout_seconds, CONNECT_TIMEOUT_SECONDS)),
        follow_redirects=False,
    )
