"""A client's connection to one model process: many calls at once over one socket, told apart by number."""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from inference.engine.errors import EngineDied, EngineError, ModelNotLoaded
from inference.engine.ipc import frames
from inference.engine.ipc.channel import BrokenFrame, Channel
from inference.engine.ipc.frames import Draining, Failed, Frame, Leaving, ModelReply, Step, StepOutput
from inference.engine.model_status import ModelState
from inference.engine.outputs import FinishReason, GenerationOutput, Usage
from inference.engine.requests import GenerationRequest

logger = logging.getLogger(__name__)
Reply = TypeVar("Reply", bound=ModelReply)

MAX_UNREAD_BYTES = 2**20
MANY_UNREAD_BYTES = MAX_UNREAD_BYTES // 4
_OUTPUT_BYTES = 128  # what a waiting output costs beside its text, and each log probability in it
_NOT_SAMPLED = (FinishReason.CANCELLED, FinishReason.ERROR)  # ends that no token made

DIED = "The model process ended while it worked on this; it is being started again, so ask again in a few seconds."
UNLOADED = "The model is being unloaded; load it again first."
UNREAD = "The reader fell too far behind what was generated; read the stream faster."


def _size(output: StepOutput) -> int:
    """About what it costs to keep. Log probabilities of an echoed prompt are not counted: they come once, at once."""
    size = _OUTPUT_BYTES + len(output.text)
    if output.index and output.logprobs:
        size += _OUTPUT_BYTES * sum(1 + len(logprob.top) for logprob in output.logprobs)
    if output.tool_calls:
        size += sum(len(delta.arguments) for delta in output.tool_calls)
    return size


class GenerationStream:
    """The outputs of one accepted generation, in order; the last has its usage. For one reader.

    Closing before the end cancels. A reader that leaves more than 1 MiB unread gets finish_reason `error`.
    """

    def __init__(self, request_id: str, abandon: Callable[[], None]) -> None:
        self.prompt_tokens = 0
        self._request_id = request_id
        self._abandon = abandon
        self._outputs: deque[tuple[int, GenerationOutput]] = deque()
        self._unread_bytes = 0
        self._tokens = 0
        self._usage: Usage | None = None  # once nothing more will come
        self._told: list[Callable[[Usage], None]] = []
        self._watch: Callable[[GenerationOutput], None] | None = None
        self._is_read_whole = False
        self._changed = asyncio.Event()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GenerationOutput:
        while not self._outputs:
            if self._usage is not None:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        size, output = self._outputs.popleft()
        self._unread_bytes -= size
        return output

    async def peek(self) -> GenerationOutput | None:
        """The next output, which stays the next one; None at the end."""
        while not self._outputs and self._usage is None:
            self._changed.clear()
            await self._changed.wait()
        return self._outputs[0][1] if self._outputs else None

    async def read(self) -> list[GenerationOutput]:
        """All outputs that wait, once the last is among them or they are many; none after the end. For who needs no
        token at once, and would else be woken for each."""
        self._is_read_whole = True
        try:
            while self._usage is None and self._unread_bytes < MANY_UNREAD_BYTES:
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._is_read_whole = False
        outputs = [output for _, output in self._outputs]
        self._outputs.clear()
        self._unread_bytes = 0
        return outputs

    async def close(self) -> None:
        """Cancel unless it is finished; what was not read is dropped. Never waits, so a cancelled task may call it."""
        if self._usage is None:
            self._abandon()
        self._outputs.clear()
        self._finish(Usage(self.prompt_tokens, self._tokens))

    def add_done_callback(self, tell: Callable[[Usage], None]) -> None:
        """Calls `tell` once, with the usage, when nothing more will come; at once, if that is so. Of a stream that was
        closed, or whose process ended, it is what had come until then."""
        if self._usage is None:
            self._told.append(tell)
        else:
            tell(self._usage)

    def watch(self, watch: Callable[[GenerationOutput], None]) -> None:
        """Calls `watch` with each output when it comes, whether or not it is read; at once with those that wait."""
        self._watch = watch
        for _, output in self._outputs:
            watch(output)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def push(self, output: StepOutput) -> None:
        """Take an output that came over the socket."""
        if self._usage is not None:
            return
        size = _size(output)
        self._unread_bytes += size
        if self._unread_bytes > MAX_UNREAD_BYTES:
            self._abandon()
            self.fail(UNREAD)
            return
        self._append(size, output.output(self._request_id))
        self._tokens += 0 if output.finish_reason in _NOT_SAMPLED else output.tokens
        if not self._is_read_whole or self._unread_bytes >= MANY_UNREAD_BYTES:
            self._changed.set()
        if output.usage is not None:
            self._finish(output.usage)

    def fail(self, message: str, code: str | None = None) -> None:
        """End with finish_reason `error` after what has come so far. code: as `error_code` of an output."""
        usage = Usage(self.prompt_tokens, self._tokens)
        last = GenerationOutput(
            request_id=self._request_id,
            index=self._tokens,
            text="",
            finish_reason=FinishReason.ERROR,
            usage=usage,
            error=message,
            error_code=code,
        )
        self._append(0, last)
        self._finish(usage)

    def _append(self, size: int, output: GenerationOutput) -> None:
        self._outputs.append((size, output))
        if self._watch:
            self._watch(output)

    def _finish(self, usage: Usage) -> None:
        """The first time counts."""
        if self._usage is None:
            self._usage = usage
            for tell in self._told:
                tell(usage)
        self._changed.set()


class Connection:
    """Calls over one greeted channel, from one event loop.

    When the process crashes, every call ends: those that wait with EngineDied, streams with finish_reason `error`. When
    the model is unloaded, those that wait end with ModelNotLoaded: it has begun none of them.
    """

    def __init__(self, channel: Channel, on_lost: Callable[[], None]) -> None:
        self._channel = channel
        self._limits = channel.peer.limits if channel.peer else None
        self._on_lost = on_lost
        self._lost = self._is_unloaded = False
        self._numbers = itertools.count(1)
        self._replies: dict[int, asyncio.Future[ModelReply]] = {}
        self._streams: dict[int, GenerationStream] = {}
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def generate(self, request: GenerationRequest) -> GenerationStream:
        """Returns once the engine has accepted; its outputs may already be waiting. What is far too long for it is not
        sent at all."""
        if self._limits and not self._lost:
            self._limits.check(request)
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
            raise self._end()
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
            while not self._is_unloaded and (frame := await self._channel.receive()) is not None:
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
                if output.usage is not None:
                    self._streams.pop(output.call, None)
            return
        if isinstance(frame, Draining):
            self._limits = None
            return
        if isinstance(frame, Leaving):
            self._is_unloaded = True
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
                answer.set_exception(self._end())
        for stream in self._streams.values():
            stream.fail(DIED, EngineDied.__name__)
        self._streams.clear()

    def _end(self) -> EngineError:
        """Why nothing more is answered here."""
        if self._is_unloaded:
            return ModelNotLoaded(UNLOADED, state=ModelState.UNLOADING, retry_after=1)
        return EngineDied(DIED)
