"""An httpcore2 network backend that connects to checked addresses only, and limits the bytes it reads."""

# ruff: noqa: ASYNC109 the signatures are httpcore2's

import ssl
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

import httpcore2

MAX_RESPONSE_BYTES = 64 * 1024


class ResponseTooLarge(httpcore2.ReadError):
    """The receiver sent more than MAX_RESPONSE_BYTES."""


class _LimitedStream(httpcore2.AsyncNetworkStream):
    """Stream that reads at most MAX_RESPONSE_BYTES in all: headers, body, and informational responses."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._remaining = MAX_RESPONSE_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._remaining <= 0:
            raise ResponseTooLarge(f"more than {MAX_RESPONSE_BYTES} bytes")
        piece = await self._stream.read(min(max_bytes, self._remaining), timeout)
        self._remaining -= len(piece)
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return _LimitedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Network backend that ignores the host and connects to the first of its addresses that accepts."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self._addresses = [
            str(ip_address(address)) for address in addresses
        ]  # raises for a name, which would be resolved again

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        network = httpcore2.AnyIOBackend()
        failed: Exception = httpcore2.ConnectError("the name has no address")
        for address in self._addresses:
            try:
                stream = await network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
            else:
                return _LimitedStream(stream)
        raise failed
