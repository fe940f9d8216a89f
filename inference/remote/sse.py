"""A parser of server-sent events that yields an event's data as soon as its line is complete."""

from collections.abc import AsyncIterator

MAX_LINE_BYTES = 4 * 1024 * 1024
DONE = b"[DONE]"


class LineTooLong(Exception):
    """A line of more than MAX_LINE_BYTES."""


async def parse_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes | None]:
    """Yield the data of each event up to `[DONE]`, and None for a comment, which keeps the connection alive."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.rstrip(b"\r").partition(b":")
            if name == b"data":
                if value.strip() == DONE:
                    return
                yield value
            elif not name:
                yield None
        if len(rest) > MAX_LINE_BYTES:
            raise LineTooLong
