"""A file as the body of an answer."""

import asyncio
from typing import Any

CHUNK = 256 * 1024


class FileChunks:
    """An open file as the body of an answer, read in a thread; Django closes it, however the answer ends."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __aiter__(self) -> "FileChunks":
        return self

    async def __anext__(self) -> bytes:
        chunk: bytes = await asyncio.to_thread(self._file.read, CHUNK)
        if not chunk:
            raise StopAsyncIteration
        return chunk

    def close(self) -> None:
        self._file.close()
