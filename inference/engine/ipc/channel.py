"""Frames over a Unix socket: 4 bytes of length (big-endian), then one msgpack frame. Both ends send Hello first."""

import asyncio
import contextlib
from pathlib import Path

import msgspec

from inference.engine.errors import InvalidRequest
from inference.engine.ipc.frames import AnyFrame, Frame, Hello
from inference.engine.prompt_limits import PromptLimits

PROTOCOL_VERSION = 10
LENGTH_BYTES = 4
MAX_FRAME_BYTES = 64 * 2**20
HELLO_SECONDS = 10.0

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyFrame] = msgspec.msgpack.Decoder(AnyFrame)


class FrameError(Exception):
    """An invalid frame, or a frame of another protocol version."""


class Channel:
    """Frames over one connected stream. `send` never waits; `receive` is for one reader at a time.

    remote_hello: the Hello of the other end, after the handshake.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.remote_hello: Hello | None = None

    @property
    def unsent_bytes(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    def send(self, frame: Frame) -> None:
        """Write a frame to the socket, unless it is closed. Raise InvalidRequest if the frame is too large."""
        data = bytearray(LENGTH_BYTES)
        _encoder.encode_into(frame, data, LENGTH_BYTES)
        length = len(data) - LENGTH_BYTES
        if length > MAX_FRAME_BYTES:
            raise InvalidRequest(f"The request must be at most {MAX_FRAME_BYTES} bytes in all, not {length}; split it.")
        data[:LENGTH_BYTES] = length.to_bytes(LENGTH_BYTES, "big")
        if not self._writer.is_closing():
            self._writer.write(memoryview(data))  # saves a copy of the unsent part

    async def receive(self) -> AnyFrame | None:
        """Return the next frame, or None if the connection is closed. Raise FrameError for invalid data."""
        try:
            length = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
            if length > MAX_FRAME_BYTES:
                raise FrameError(f"A frame must be at most {MAX_FRAME_BYTES} bytes, not {length}.")
            return _decoder.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FrameError(f"The received data is not a frame: {error}") from error

    async def handshake(self, limits: PromptLimits | None = None) -> None:
        """Exchange Hellos. limits: of this end, if it generates text.

        Raise FrameError for another version, invalid data, or no Hello in time, and ConnectionError if the other end
        closes the connection before its Hello.
        """
        self.send(Hello(PROTOCOL_VERSION, limits))
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                hello = await self.receive()
        except TimeoutError:
            raise FrameError(f"The other end sent no Hello within {HELLO_SECONDS:.0f} s.") from None
        if hello is None:
            raise ConnectionResetError("The other end closed the connection before its Hello.")
        if not isinstance(hello, Hello):
            raise FrameError("The other end did not send a Hello.")
        if hello.version != PROTOCOL_VERSION:
            raise FrameError(
                f"The other end has protocol version {hello.version} and this one {PROTOCOL_VERSION}; restart the "
                "older one."
            )
        self.remote_hello = hello

    def close(self) -> None:
        """Close without waiting. Buffered frames are still delivered while the event loop runs."""
        self._writer.close()

    def abort(self) -> None:
        """Close at once and drop buffered frames."""
        self._writer.transport.abort()

    async def wait_closed(self) -> None:
        """Close, and wait until all buffered frames are delivered or lost."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def connect(path: Path) -> Channel:
    """Connect to the socket at `path` and shake hands. Raise OSError if nothing listens, else as `handshake` does."""
    channel = Channel(*await asyncio.open_unix_connection(path))
    try:
        await channel.handshake()
    except BaseException:
        channel.close()
        raise
    return channel
