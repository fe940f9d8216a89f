"""Server-sent events as they are read: the data of each event, as soon as its line is whole."""

from collections.abc import AsyncIterator

LONGEST_LINE = 4 * 1024 * 1024
DONE = b"[DONE]"


class LineTooLong(Exception):
    """An event that no answer needs."""


async def events(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes | None]:
    """The data of each event up to `[DONE]`; None for a line that only keeps the connection alive."""
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            name, _, value = line.rstrip(b"\r").partition(b":")
            if name == b"data":
                if value.strip() == DONE:
                    return
                yield value
            elif not name:
                yield None
        if len(rest) > LONGEST_LINE:
            raise LineTooLong
