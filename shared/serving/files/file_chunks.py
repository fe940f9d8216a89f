"""Open files as response bodies."""

import asyncio
from typing import Any

CHUNK_BYTES = 256 * 1024


class AsyncFileChunks:
    """Asynchronous iterator over an open file, read in a thread. Django closes it when the response ends."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __aiter__(self) -> "AsyncFileChunks":
        return self

    async def __anext__(self) -> bytes:
        chunk: bytes = await asyncio.to_thread(self._file.read, CHUNK_BYTES)
        if not chunk:
            raise StopAsyncIteration
        return chunk

    def close(self) -> None:
        self._file.close()
