"""A client's connection to one model process: concurrent calls over one socket, and generation streams."""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from inference.engine.errors import EngineDied, EngineError, ModelNotLoaded
from inference.engine.ipc import frames
from inference.engine.ipc.channel import Channel, FrameError
from inference.engine.ipc.frames import DrainNotice, ErrorReply, Frame, ModelReply, Step, StepOutput, UnloadNotice
from inference.engine.model_status import ModelState
from inference.engine.outputs import FinishReason, GenerationOutput, Usage
from inference.engine.requests import GenerationRequest

logger = logging.getLogger(__name__)
Reply = TypeVar("Reply", bound=ModelReply)

MAX_UNREAD_BYTES = 2**20
WAKE_UNREAD_BYTES = MAX_UNREAD_BYTES // 4
_OUTPUT_BYTES = 128  # of an unread output without its text, and of each log probability
_TOKENLESS_REASONS = (FinishReason.CANCELLED, FinishReason.ERROR)

DIED = "The model process ended during this request and is being restarted; try again in a few seconds."
UNLOADED = "The model is being unloaded; load it again first."
UNREAD = "The reader is too far behind the generated outputs; read the stream faster."


def _size(output: StepOutput) -> int:
    """Return the approximate memory of an output. Log probabilities of an echoed prompt come once and do not count."""
    size = _OUTPUT_BYTES + len(output.text)
    if output.index and output.logprobs:
        size += _OUTPUT_BYTES * sum(1 + len(logprob.top) for logprob in output.logprobs)
    if output.tool_calls:
        size += sum(len(delta.arguments) for delta in output.tool_calls)
    return size


class Forward:
    """The place of a stream whose outputs go to another one. on_failure: see `GenerationStream.forward`."""

    def __init__(
        self,
        source: "GenerationStream",
        target: "GenerationStream",
        on_failure: Callable[[str, str | None, bool], None],
        *,
        was_begun: bool,
    ) -> None:
        self._source = source
        self._target = target
        self._on_failure = on_failure
        self._was_begun = was_begun

    def push(self, output: StepOutput) -> None:
        self._was_begun = True
        self._target.push(output)
        if output.usage is not None:
            self._source._finish(output.usage)

    def fail(self, message: str, code: str | None = None) -> None:
        self._on_failure(message, code, self._was_begun)


class GenerationStream:
    """The outputs of one accepted generation, in order; the last one has its usage. For one reader.

    Closing before the end cancels the generation. With more than 1 MiB unread it ends with finish_reason `error`.
    """

    def __init__(
        self, request_id: str, cancel: Callable[[], None], redirect: Callable[[Forward], None] | None = None
    ) -> None:
        """Prepare a stream. redirect: gives its further outputs to another receiver, for `forward`."""
        self.prompt_tokens = 0
        self._request_id = request_id
        self._cancel = cancel
        self._redirect = redirect
        self._failure: tuple[str, str | None] | None = None
        self._outputs: deque[tuple[int, GenerationOutput]] = deque()
        self._unread_bytes = 0
        self._tokens = 0
        self._usage: Usage | None = None  # set when the stream has ended
        self._done_callbacks: list[Callable[[Usage], None]] = []
        self._watchers: tuple[Callable[[GenerationOutput], None], ...] = ()
        self._reads_in_bulk = False
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
        """Return the next output without consuming it, or None at the end."""
        while not self._outputs and self._usage is None:
            self._changed.clear()
            await self._changed.wait()
        return self._outputs[0][1] if self._outputs else None

    async def read(self) -> list[GenerationOutput]:
        """Return all unread outputs once the stream has ended or they are large; [] after the end.

        It wakes the reader less often than iteration does.
        """
        self._reads_in_bulk = True
        try:
            while self._usage is None and self._unread_bytes < WAKE_UNREAD_BYTES:
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._reads_in_bulk = False
        outputs = [output for _, output in self._outputs]
        self._outputs.clear()
        self._unread_bytes = 0
        return outputs

    async def close(self) -> None:
        """Cancel the generation unless it has ended, and drop unread outputs. It never waits."""
        if self._usage is None:
            self._cancel()
        self._outputs.clear()
        self._finish(Usage(self.prompt_tokens, self._tokens))

    def add_done_callback(self, callback: Callable[[Usage], None]) -> None:
        """Call `callback` once with the usage when the stream has ended, or now if it has.

        The usage of a closed or broken stream counts the tokens received.
        """
        if self._usage is None:
            self._done_callbacks.append(callback)
        else:
            callback(self._usage)

    def watch(self, callback: Callable[[GenerationOutput], None]) -> None:
        """Call `callback` with each output on arrival, whether or not it is read, and now with the unread ones."""
        self._watchers = (*self._watchers, callback)
        for _, output in self._outputs:
            callback(output)

    def forward(self, target: "GenerationStream", on_failure: Callable[[str, str | None, bool], None]) -> None:
        """Move the unread outputs to another stream, which gets the further ones as they arrive.

        on_failure: called in place of an output with the error, with its message, its code, and whether the stream had
        begun.
        """
        target.prompt_tokens = self.prompt_tokens
        outputs = list(self._outputs)[: -1 if self._failure else None]
        for size, output in outputs:
            target._append(size, output)
        target._unread_bytes += self._unread_bytes
        target._tokens += self._tokens
        target._changed.set()
        if self._failure:
            on_failure(*self._failure, bool(outputs))
        elif self._usage is not None:
            target._finish(self._usage)
        elif self._redirect:
            self._redirect(Forward(self, target, on_failure, was_begun=bool(outputs)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def push(self, output: StepOutput) -> None:
        """Add an output that was received."""
        if self._usage is not None:
            return
        size = _size(output)
        self._unread_bytes += size
        if self._unread_bytes > MAX_UNREAD_BYTES:
            self._cancel()
            self.fail(UNREAD)
            return
        self._append(size, output.output(self._request_id))
        self._tokens += 0 if output.finish_reason in _TOKENLESS_REASONS else output.tokens
        if not self._reads_in_bulk or self._unread_bytes >= WAKE_UNREAD_BYTES:
            self._changed.set()
        if output.usage is not None:
            self._finish(output.usage)

    def fail(self, message: str, code: str | None = None) -> None:
        """End the stream with finish_reason `error`. code: `error_code` of the last output."""
        self._failure = (message, code)
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
        for callback in self._watchers:
            callback(output)

    def _finish(self, usage: Usage) -> None:
        """End the stream. Only the first call has an effect."""
        if self._usage is None:
            self._usage = usage
            for callback in self._done_callbacks:
                callback(usage)
        self._changed.set()


class Connection:
    """Concurrent calls over one channel after its handshake, from one event loop.

    If the process crashes, waiting calls raise EngineDied and streams end with finish_reason `error`. If the model is
    unloaded, waiting calls raise ModelNotLoaded, as none of them was started.
    """

    def __init__(self, channel: Channel, on_lost: Callable[[], None], replicas: int = 1) -> None:
        """Begin to read. replicas: that the model has."""
        self.replicas = replicas
        self._channel = channel
        self._limits = channel.remote_hello.limits if channel.remote_hello else None
        self._on_lost = on_lost
        self._is_lost = self._is_unloaded = False
        self._numbers = itertools.count(1)
        self._replies: dict[int, asyncio.Future[ModelReply]] = {}
        self._streams: dict[int, GenerationStream | Forward] = {}
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def generate(self, request: GenerationRequest) -> GenerationStream:
        """Start a generation, and return its stream once the engine has accepted the request.

        The first outputs may be in the stream already. A prompt beyond the limits is not sent.
        """
        if self._limits and not self._is_lost:
            self._limits.check(request)
        number = next(self._numbers)
        stream = GenerationStream(
            request.request_id, lambda: self._cancel(number), lambda forward: self._replace(number, forward)
        )
        self._streams[number] = stream
        try:
            accepted = await self._call(number, frames.Generate(number, request), frames.GenerationAccepted)
        except BaseException:
            self._streams.pop(number, None)
            raise
        stream.prompt_tokens = accepted.prompt_tokens
        return stream

    async def call(self, make: Callable[[int], Frame], kind: type[Reply]) -> Reply:
        """Send the frame that `make` returns for a call number, and return the reply.

        Cancelling the caller cancels the call.
        """
        number = next(self._numbers)
        return await self._call(number, make(number), kind)

    async def close(self) -> None:
        """End every call of this connection. The model process cancels their requests."""
        self._channel.abort()
        await asyncio.wait({self._reader})
        await self._channel.wait_closed()

    async def _call(self, number: int, frame: Frame, kind: type[Reply]) -> Reply:
        if self._is_lost:
            raise self._lost_error()
        future = self._replies[number] = asyncio.get_running_loop().create_future()
        try:
            self._channel.send(frame)
            reply = await future
        except asyncio.CancelledError:
            self._cancel(number)
            raise
        finally:
            self._replies.pop(number, None)
        assert isinstance(reply, kind)
        return reply

    def _replace(self, number: int, forward: Forward) -> None:
        self._streams[number] = forward

    def _cancel(self, number: int) -> None:
        self._streams.pop(number, None)
        self._channel.send(frames.Cancel(number))

    async def _read(self) -> None:
        try:
            while not self._is_unloaded and (frame := await self._channel.receive()) is not None:
                self._dispatch(frame)
        except FrameError:
            logger.exception("engine.connection_failed")
        finally:
            self._disconnect()

    def _dispatch(self, frame: Frame) -> None:
        if isinstance(frame, Step):
            for output in frame.outputs:
                stream = self._streams.get(output.call)
                if stream is not None:
                    stream.push(output)
                if output.usage is not None:
                    self._streams.pop(output.call, None)
            return
        if isinstance(frame, DrainNotice):
            self._limits = None
            return
        if isinstance(frame, UnloadNotice):
            self._is_unloaded = True
            return
        if not isinstance(frame, ErrorReply | ModelReply):
            raise FrameError(f"A model process does not send {type(frame).__name__}.")
        reply = self._replies.get(frame.call)
        if reply is None or reply.done():
            return
        if isinstance(frame, ErrorReply):
            reply.set_exception(frames.error_from(frame))
        else:
            reply.set_result(frame)

    def _disconnect(self) -> None:
        self._is_lost = True
        self._on_lost()
        self._channel.abort()
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(self._lost_error())
        for stream in self._streams.values():
            stream.fail(DIED, EngineDied.__name__)
        self._streams.clear()

    def _lost_error(self) -> EngineError:
        if self._is_unloaded:
            return ModelNotLoaded(UNLOADED, state=ModelState.UNLOADING, retry_after=1)
        return EngineDied(DIED)
