"""A client's connection to one model process: many calls at once over one socket, told apart by number."""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from inference.engine import frames
from inference.engine.channel import BrokenFrame, Channel
from inference.engine.errors import EngineDied
from inference.engine.frames import Failed, Frame, ModelReply, Step, StepOutput
from inference.engine.request import FinishReason, GenerationOutput, GenerationRequest, Usage

logger = logging.getLogger(__name__)
Reply = TypeVar("Reply", bound=ModelReply)

MAX_UNREAD_BYTES = 2**20
_OUTPUT_BYTES = 128  # what a waiting output costs beside its text

DIED = "The model process ended while it worked on this; it is being started again, so ask again in a few seconds."
UNREAD = "The reader fell too far behind what was generated; read the stream faster."


class GenerationStream:
    """The outputs of one accepted generation, in order; the last has a finish_reason. For one reader.

    Closing before the end cancels. A reader that leaves more than 1 MiB unread gets finish_reason `error`.
    """

    def __init__(self, request_id: str, abandon: Callable[[], None]) -> None:
        self.prompt_tokens = 0
        self._request_id = request_id
        self._abandon = abandon
        self._outputs: deque[GenerationOutput] = deque()
        self._unread_bytes = 0
        self._tokens = 0
        self._finished = False
        self._changed = asyncio.Event()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GenerationOutput:
        while not self._outputs:
            if self._finished:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        output = self._outputs.popleft()
        self._unread_bytes -= _OUTPUT_BYTES + len(output.text)
        return output

    async def close(self) -> None:
        """Cancel unless it is finished; what was not read is dropped. Never waits, so a cancelled task may call it."""
        if not self._finished:
            self._abandon()
        self._outputs.clear()
        self._finish()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def push(self, output: StepOutput) -> None:
        """Take an output that came over the socket."""
        if self._finished:
            return
        self._unread_bytes += _OUTPUT_BYTES + len(output.text)
        if self._unread_bytes > MAX_UNREAD_BYTES:
            self._abandon()
            self.fail(UNREAD)
            return
        self._outputs.append(
            GenerationOutput(
                request_id=self._request_id,
                index=output.index,
                text=output.text,
                finish_reason=output.finish_reason,
                usage=output.usage,
                error=output.error,
            )
        )
        self._tokens = output.index + 1
        self._changed.set()
        if output.finish_reason is not None:
            self._finish()

    def fail(self, message: str) -> None:
        """End with finish_reason `error` after what has come so far."""
        self._outputs.append(
            GenerationOutput(
                request_id=self._request_id,
                index=self._tokens,
                text="",
                finish_reason=FinishReason.ERROR,
                usage=Usage(self.prompt_tokens, self._tokens),
                error=message,
            )
        )
        self._unread_bytes += _OUTPUT_BYTES
        self._finish()

    def _finish(self) -> None:
        self._finished = True
        self._changed.set()


class Connection:
    """Calls over one greeted channel, from one event loop.

    When the process ends, every call ends: those that wait with EngineDied, streams with finish_reason `error`.
    """

    def __init__(self, channel: Channel, on_lost: Callable[[], None]) -> None:
        self._channel = channel
        self._on_lost = on_lost
        self._lost = False
        self._numbers = itertools.count(1)
        self._replies: dict[int, asyncio.Future[ModelReply]] = {}
        self._streams: dict[int, GenerationStream] = {}
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def generate(self, request: GenerationRequest) -> GenerationStream:
        """Returns once the engine has accepted; its outputs may already be waiting."""
        number = next(self._numbers)
        stream = self._streams[number] = GenerationStream(request.request_id, lambda: self._cancel(number))
        try:
            accepted = await self._ask(number, frames.Generate(number, request), frames.Accepted)
        except BaseException:
            self._streams.pop(number, None)
            raise
        stream.prompt_tokens = accepted.prompt_tokens
        return stream

    async def ask(self, make: Callable[[int], Frame], kind: type[Reply]) -> Reply:
        """Send what `make` makes of a call number, and wait for its answer. Leaving before that cancels the call."""
        number = next(self._numbers)
        return await self._ask(number, make(number), kind)

    async def close(self) -> None:
        """Every call of this connection ends, and the model process cancels what it had been asked."""
        self._channel.abort()
        await asyncio.wait({self._reader})
        await self._channel.closed()

    async def _ask(self, number: int, frame: Frame, kind: type[Reply]) -> Reply:
        if self._lost:
            raise EngineDied(DIED)
        answer = self._replies[number] = asyncio.get_running_loop().create_future()
        try:
            self._channel.send(frame)
            reply = await answer
        except asyncio.CancelledError:
            self._cancel(number)
            raise
        finally:
            self._replies.pop(number, None)
        assert isinstance(reply, kind)
        return reply

    def _cancel(self, number: int) -> None:
        self._streams.pop(number, None)
        self._channel.send(frames.Cancel(number))

    async def _read(self) -> None:
        try:
            while (frame := await self._channel.receive()) is not None:
                self._take(frame)
        except BrokenFrame:
            logger.exception("engine.connection_broken")
        finally:
            self._lose()

    def _take(self, frame: Frame) -> None:
        if isinstance(frame, Step):
            for output in frame.outputs:
                stream = self._streams.get(output.call)
                if stream is not None:
                    stream.push(output)
                if output.finish_reason is not None:
                    self._streams.pop(output.call, None)
            return
        if not isinstance(frame, Failed | ModelReply):
            raise BrokenFrame(f"A model process does not send {type(frame).__name__}.")
        answer = self._replies.get(frame.call)
        if answer is None or answer.done():
            return
        if isinstance(frame, Failed):
            answer.set_exception(frames.error_from(frame))
        else:
            answer.set_result(frame)

    def _lose(self) -> None:
        self._lost = True
        self._on_lost()
        self._channel.abort()
        for answer in self._replies.values():
            if not answer.done():
                answer.set_exception(EngineDied(DIED))
        for stream in self._streams.values():
            stream.fail(DIED)
        self._streams.clear()
