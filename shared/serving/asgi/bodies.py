"""Request bodies: read within a deadline, up to a size limit, and with a known length."""

import asyncio
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import IO, ClassVar

from shared.api.errors import ApiError
from shared.serving.asgi.turns import client_turns
from shared.serving.asgi.types import Event, Receive

READ_TIMEOUT_SECONDS = 60.0
MIN_BYTES_PER_SECOND = 500  # of a client, after MIN_RATE_GRACE_SECONDS
MIN_RATE_GRACE_SECONDS = 20.0
UNVERIFIED_GRACE_SECONDS = 2.0  # on a reserved connection, before a session cookie is verified
MAX_MEMORY_BYTES = 256 * 1024
CHUNK_BYTES = 64 * 1024
MAX_CLIENT_BYTES = 256 * 1024 * 1024  # of the bodies of a client's requests at once, or four of the largest
DECODED_AT_ONCE_BYTES = 1024 * 1024  # of an encoded body, in a turn
GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS  # zlib's flag for gzip's header and checksum


def body_too_large_error(max_bytes: int) -> ApiError:
    return ApiError(413, f"The request body is larger than {max_bytes} bytes.")


class DeadlineBody:
    """A `receive` callable with a deadline for the whole body, READ_TIMEOUT_SECONDS times `factor`, and a minimum rate.

    Only the time in which it waits for the client counts for the rate, MIN_BYTES_PER_SECOND. It begins after a grace,
    which is shorter for a client that `is_unverified`. After the deadline, and of a slower client, it reports a
    disconnect, and `has_timed_out` is true.

    Bodies are on disk while their requests wait for a turn: their bytes count for `client` until `close`.
    """

    _bytes_by_client: ClassVar[Counter[str]] = Counter()

    def __init__(
        self, receive: Receive, *, client: str, max_bytes: int, factor: float = 1.0, is_unverified: bool = False
    ) -> None:
        self._receive = receive
        self._client = client
        self._max_client_bytes = max(MAX_CLIENT_BYTES, 4 * max_bytes)
        self._counted = 0
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + READ_TIMEOUT_SECONDS * factor
        self._wait_budget_s = UNVERIFIED_GRACE_SECONDS if is_unverified else MIN_RATE_GRACE_SECONDS
        self._is_complete = False
        self.has_timed_out = False

    async def __call__(self) -> Event:
        if self._is_complete:
            return await self._receive()
        started = self._loop.time()
        try:
            async with asyncio.timeout_at(min(self._deadline, started + self._wait_budget_s)):
                event = await self._receive()
        except TimeoutError:
            self.has_timed_out = True
            return {"type": "http.disconnect"}
        self._wait_budget_s -= self._loop.time() - started
        self._wait_budget_s += len(event.get("body", b"")) / MIN_BYTES_PER_SECOND
        self._is_complete = not event.get("more_body", False)
        self.count(len(event.get("body", b"")))
        return event

    def count(self, length: int) -> None:
        """Count so many bytes more. Raise ApiError 429 if the client's requests have too many together."""
        if self._bytes_by_client[self._client] + length > self._max_client_bytes:
            raise ApiError(
                429,
                f"The bodies of your requests in progress are larger than {self._max_client_bytes} bytes together. "
                "Send fewer at once.",
                headers={"Retry-After": "1"},
            )
        self._bytes_by_client[self._client] += length
        self._counted += length

    def close(self) -> None:
        self._bytes_by_client[self._client] -= self._counted
        if not self._bytes_by_client[self._client]:
            del self._bytes_by_client[self._client]
        self._counted = 0


class GzipDecoder:
    """A decoder of a gzip body that arrives in pieces. It never holds more than CHUNK_BYTES of a piece at once."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(GZIP_WINDOW_BITS)

    def decode(self, piece: bytes) -> Iterator[bytes]:
        """Yield the content of the next piece. Raise ApiError 400 if it is not gzip."""
        is_full = True
        try:
            while piece or is_full:
                content = self._decoder.decompress(piece, CHUNK_BYTES)
                yield content
                piece, is_full = self._decoder.unconsumed_tail, len(content) == CHUNK_BYTES
        except zlib.error:
            raise _gzip_error() from None
        if self._decoder.unused_data:
            raise _gzip_error()

    def finish(self) -> None:
        """Raise ApiError 400 if the body ended too early."""
        if not self._decoder.eof:
            raise _gzip_error()


class SpooledBody:
    """A body that is read to its end first, so that its length is known, and then replayed.

    Django and DRF take a missing Content-Length for an empty body. Large bodies wait on disk, as in Django itself.
    decoder: of a body that is encoded; the limit and the length are those of its content. It decodes when it is the
    turn of `client`, and of its address.
    count: called with the number of decoded bytes; its exception refuses the body.
    """

    def __init__(
        self,
        receive: Receive,
        decoder: GzipDecoder | None = None,
        *,
        client: str = "",
        address: str = "",
        count: Callable[[int], None] = lambda length: None,
    ) -> None:
        self._receive = receive
        self._decoder = decoder
        self._client, self._address = client, address
        self._count = count
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=MAX_MEMORY_BYTES)  # noqa: SIM115 - see close
        self._is_replayed = False
        self.length = 0

    async def read(self, *, max_bytes: int) -> bool:
        """Read the whole body; return False if the client left. Raise ApiError 413 as soon as it exceeds the limit."""
        more, encoded = True, bytearray()
        while more:
            event = await self._receive()
            if event["type"] != "http.request":
                return False
            more, body = event.get("more_body", False), event.get("body", b"")
            if self._decoder is None:
                self._write(body, max_bytes)
                continue
            encoded += body
            if len(encoded) >= DECODED_AT_ONCE_BYTES or not more:
                piece, before = (self._decoder, bytes(encoded), max_bytes), self.length
                await client_turns.run(self._client, self._write_decoded, *piece, address=self._address)
                self._count(self.length - before)
                encoded.clear()
        if self._decoder is not None and self.length:
            self._decoder.finish()
        self._file.seek(0)
        return True

    def _write(self, piece: bytes, max_bytes: int) -> None:
        self.length += len(piece)
        if self.length > max_bytes:
            raise body_too_large_error(max_bytes)
        self._file.write(piece)

    def _write_decoded(self, decoder: GzipDecoder, body: bytes, max_bytes: int) -> None:
        for piece in decoder.decode(body):
            self._write(piece, max_bytes)

    async def __call__(self) -> Event:
        if self._is_replayed:
            return await self._receive()
        chunk = self._file.read(CHUNK_BYTES)
        self._is_replayed = self._file.tell() == self.length
        return {"type": "http.request", "body": chunk, "more_body": not self._is_replayed}

    def close(self) -> None:
        self._file.close()


def _gzip_error() -> ApiError:
    return ApiError(400, "The body is not valid gzip, which its Content-Encoding names.")
