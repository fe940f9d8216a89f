"""Frames over a Unix socket: 4 bytes of length (big-endian), then one msgpack frame. Both ends say Hello first."""

import asyncio
import contextlib
from pathlib import Path

import msgspec

from inference.engine.errors import InvalidRequest
from inference.engine.ipc.frames import AnyFrame, Frame, Hello
from inference.engine.prompt_limits import PromptLimits

PROTOCOL_VERSION = 6
LENGTH_BYTES = 4
MAX_FRAME_BYTES = 64 * 2**20
HELLO_SECONDS = 10.0

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyFrame] = msgspec.msgpack.Decoder(AnyFrame)


class BrokenFrame(Exception):
    """The peer does not speak our frames, or another version of them."""


class Channel:
    """Frames over one connected stream. `send` never waits; `receive` is for one reader at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.peer: Hello | None = None  # what it said

    @property
    def unsent_bytes(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    def send(self, frame: Frame) -> None:
        """Hand a frame to the socket; nothing happens on a closed one. InvalidRequest: the frame is over the cap."""
        sent = bytearray(LENGTH_BYTES)
        _encoder.encode_into(frame, sent, LENGTH_BYTES)
        length = len(sent) - LENGTH_BYTES
        if length > MAX_FRAME_BYTES:
            raise InvalidRequest(f"This needs {length} bytes at once, over the {MAX_FRAME_BYTES} allowed; split it.")
        sent[:LENGTH_BYTES] = length.to_bytes(LENGTH_BYTES, "big")
        if not self._writer.is_closing():
            self._writer.write(memoryview(sent))  # what is not taken at once is not copied once more

    async def receive(self) -> AnyFrame | None:
        """The next frame; None when the peer is gone. BrokenFrame: what came is not a frame."""
        try:
            length = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
            if length > MAX_FRAME_BYTES:
                raise BrokenFrame(f"A frame of {length} bytes is over the cap of {MAX_FRAME_BYTES}.")
            return _decoder.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BrokenFrame(f"What came is not a frame: {error}") from error

    async def greet(self, limits: PromptLimits | None = None) -> None:
        """Exchange Hellos. BrokenFrame: the peer speaks another version, or no frames, or nothing in time.

        limits: of this side, if it generates text.
        """
        self.send(Hello(PROTOCOL_VERSION, limits))
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                hello = await self.receive()
        except TimeoutError:
            raise BrokenFrame(f"The other side said nothing for {HELLO_SECONDS:.0f} s.") from None
        if not isinstance(hello, Hello):
            raise BrokenFrame("The other side did not say hello.")
        if hello.version != PROTOCOL_VERSION:
            raise BrokenFrame(
                f"The other side speaks version {hello.version} and this one {PROTOCOL_VERSION}; restart the older one."
            )
        self.peer = hello

    def close(self) -> None:
        """What was sent is still delivered, if the loop goes on."""
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def closed(self) -> None:
        """Close, and wait until all that was sent is delivered or lost."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def connect(path: Path) -> Channel:
    """A greeted channel to the socket at `path`. OSError: nobody listens; BrokenFrame: see `Channel.greet`."""
    channel = Channel(*await asyncio.open_unix_connection(path))
    try:
        await channel.greet()
    except BaseException:
        channel.close()
        raise
    return channel
