"""Several generations as one stream, for a request with several prompts."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from inference.engine import FinishReason, GenerationOutput, GenerationStream, StepOutput, Usage


class MergedStream:
    """Merges streams into `merged`: the choices of the first are numbered first, then those of the second.

    The last output has the usage of all, and an error ends all. Closing `merged` cancels all.
    """

    def __init__(self, streams: Sequence[GenerationStream], *, request_id: str, n: int) -> None:
        self.merged = GenerationStream(request_id, self._cancel)
        self._streams = streams
        self._n = n
        self._usage = Usage(0, 0)
        self._unfinished = len(streams)
        self._tasks = {asyncio.create_task(self._read(stream, position)) for position, stream in enumerate(streams)}

    async def _read(self, stream: GenerationStream, position: int) -> None:
        async for output in stream:
            self._forward(output, position)

    def _forward(self, output: GenerationOutput, position: int) -> None:
        if output.usage is not None:
            self._usage += output.usage
            self._unfinished -= 1
        failed = output.finish_reason is FinishReason.ERROR
        usage = self._usage if failed or not self._unfinished else None
        choice = position * self._n + output.choice
        self.merged.push(StepOutput.of(0, replace(output, choice=choice, usage=usage)))
        if failed:
            self._cancel()

    def _cancel(self) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(self._close()))

    async def _close(self) -> None:
        for stream in self._streams:
            await stream.close()
