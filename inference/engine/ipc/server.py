"""The server of a model process: receives calls of its clients, and sends each client its outputs once per step."""

import asyncio
import contextlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from inference.engine.errors import EngineError, EngineOverloaded, InvalidRequest, ModelNotLoaded
from inference.engine.ipc import frames
from inference.engine.ipc.channel import Channel, FrameError
from inference.engine.ipc.client_session import ClientSession
from inference.engine.ipc.fair_semaphore import FairSemaphore
from inference.engine.ipc.frames import Frame, StepOutput
from inference.engine.ipc.interface import (
    EmbedderInterface,
    EngineInterface,
    ModelInterface,
    ScorerInterface,
    TokenizerInterface,
)
from inference.engine.model_status import EngineStats, ModelState
from inference.engine.outputs import GenerationOutput, ScoringResult
from inference.engine.prompt_limits import PromptLimits
from inference.engine.requests import EmbeddingRequest, GenerationRequest, ScoringRequest, TokenizationRequest

logger = logging.getLogger(__name__)
Handler = Callable[[], Coroutine[Any, Any, Frame]]
EncoderRequest = TypeVar("EncoderRequest", EmbeddingRequest, ScoringRequest)
Result = TypeVar("Result")

NUMBERED_CALLS = frames.Generate | frames.Embed | frames.Score | frames.Tokenize | frames.Detokenize
_CLOSE_SECONDS = 2.0
_MAX_CONCURRENT_EMBEDDINGS = 16
_MAX_EMBEDDINGS_PER_USER = 12
_MAX_CONCURRENT_SUBMISSIONS = 2


class _ActiveGeneration:
    """A generation from its call until its last output. cancelled: its client no longer wants it."""

    def __init__(self, client: ClientSession, call: int) -> None:
        self.client = client
        self.call = call
        self.cancelled = False


class ModelServer:
    """The server on the event loop of a model process. Only `emit` is called from another thread."""

    def __init__(self, model_id: str, max_queue: int, on_activity: Callable[[frames.Activity], None]) -> None:
        """Prepare a server; `open` starts it. on_activity: called when the server becomes busy or idle."""
        self._model_id = model_id
        self._max_queue = max_queue
        self._on_activity = on_activity
        self._loop = asyncio.get_running_loop()
        self._engine: EngineInterface | None = None
        self._embedder: EmbedderInterface | None = None
        self._scorer: ScorerInterface | None = None
        self._client_numbers = itertools.count(1)
        self._clients: set[ClientSession] = set()
        self._generations: dict[str, _ActiveGeneration] = {}
        self._unanswered: set[asyncio.Task[None]] = set()
        self._busy = False
        self._finished = 0
        self._embeddings = 0
        self._draining = False
        self._drained = asyncio.Event()
        self._submission_threads = ThreadPoolExecutor(_MAX_CONCURRENT_SUBMISSIONS, "submit")
        self._submission_semaphore = FairSemaphore(_MAX_CONCURRENT_SUBMISSIONS)
        # Calls of `tokenize` have their own thread, so that they delay no generation.
        self._tokenizer_thread = ThreadPoolExecutor(1, "tokenize")
        # These threads wait for the embedder, which runs the texts of all requests together.
        self._embedding_threads = ThreadPoolExecutor(_MAX_CONCURRENT_EMBEDDINGS, "embed")
        self._embedding_semaphore = FairSemaphore(_MAX_CONCURRENT_EMBEDDINGS, per_user=_MAX_EMBEDDINGS_PER_USER)

    async def open(self, model: ModelInterface, path: Path) -> None:
        """Start the engine and listen on the socket at `path`."""
        self._engine, self._embedder = model.engine, model.embedder
        self._scorer = model.classifier or model.embedder
        if self._engine is not None:
            self._engine.start()
        self._listener = await asyncio.start_unix_server(self._serve_client, path=path)
        os.chmod(path, 0o600)

    def drain(self) -> None:
        """Reject new requests. `drained` returns when the others have finished."""
        self._draining = True
        for client in self._clients:
            client.send(frames.DrainNotice())
        self._check_drained()

    def drain_if_idle(self) -> bool:
        """Drain if there are no requests. Return whether the server drains."""
        if not self._busy:
            self.drain()
        return self._draining

    async def drained(self) -> None:
        """Wait until the server has drained."""
        await self._drained.wait()

    async def close(self) -> None:
        """End running generations with finish_reason `cancelled`, and wait until clients have read their outputs.

        Clients disconnect after UnloadNotice. If this end did so first, a client's new call would look like a crash.
        """
        self._listener.close()
        if self._engine is not None:
            await asyncio.to_thread(self._engine.stop)
        for client in self._clients:
            client.send(frames.UnloadNotice())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*(client.gone.wait() for client in self._clients))

    def emit(self, outputs: list[GenerationOutput]) -> None:
        """Send all outputs of a step. Thread-safe: the engine's thread calls it."""
        self._loop.call_soon_threadsafe(self._send_step, outputs)

    def _send_step(self, outputs: list[GenerationOutput]) -> None:
        by_client: dict[ClientSession, list[StepOutput]] = {}
        for output in outputs:
            generation = self._generations.get(output.request_id)
            if generation is None:
                continue
            by_client.setdefault(generation.client, []).append(StepOutput.of(generation.call, output))
            if output.usage is not None:
                self._forget(output.request_id)
        for client, client_outputs in by_client.items():
            client.send(frames.Step(tuple(client_outputs)))

    def _forget(self, engine_id: str) -> None:
        del self._generations[engine_id]
        self._record_finished()

    def _record_finished(self) -> None:
        self._finished += 1
        self._report_activity(force=self._finished == 1)
        self._check_drained()

    def _report_activity(self, *, force: bool = False) -> None:
        """Report whether the server is busy, if that has changed or `force` is set."""
        busy = bool(self._generations or self._unanswered)
        if busy != self._busy or force:
            self._busy = busy
            self._on_activity(frames.Activity(busy, time.monotonic(), self._finished))

    def _check_drained(self) -> None:
        if self._draining and not self._generations and not self._unanswered:
            self._drained.set()

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = ClientSession(Channel(reader, writer), next(self._client_numbers))
        self._clients.add(client)
        try:
            await client.channel.handshake(self._limits())
            while (frame := await client.channel.receive()) is not None:
                self._dispatch(client, frame)
        except ConnectionError:
            pass  # the client left before its Hello
        except FrameError as error:
            client.send(frames.error_reply(0, InvalidRequest(str(error))))
        finally:
            self._disconnect(client)

    def _limits(self) -> PromptLimits | None:
        return None if self._engine is None or self._draining else self._engine.limits

    def _dispatch(self, client: ClientSession, frame: Frame) -> None:
        if isinstance(frame, NUMBERED_CALLS):
            self._check_call_number(client, frame.call)
        match frame:
            case frames.Generate(call, request):
                self._start_generation(client, call, request)
            case frames.Embed(call, inputs):
                self._start_job(client, call, lambda: self._embed(call, inputs))
            case frames.Score(call, texts):
                engine_id = f"{client.number}-{call}"
                self._start_job(client, call, lambda: self._score(call, texts, engine_id, time.monotonic()))
            case frames.Tokenize(call, tokenization):
                self._start_job(client, call, lambda: self._tokenize(call, tokenization))
            case frames.Detokenize(call, ids):
                self._start_job(client, call, lambda: self._detokenize(call, ids))
            case frames.GetStats(call):
                client.send(self._stats(call))
            case frames.Cancel(call):
                self._cancel(client, call)
            case _:
                raise FrameError(f"{type(frame).__name__} is no command to a model process.")

    def _check_call_number(self, client: ClientSession, call: int) -> None:
        """Raise FrameError for the number of an unanswered call: one of the two could not be cancelled."""
        if call in client.jobs or f"{client.number}-{call}" in self._generations:
            raise FrameError(f"The number of call {call} is in use: the call has not ended yet.")

    def _start_generation(self, client: ClientSession, call: int, request: GenerationRequest) -> None:
        engine_id = f"{client.number}-{call}"
        generation = self._generations[engine_id] = _ActiveGeneration(client, call)
        arrived_at = time.monotonic()
        request = msgspec.structs.replace(request, request_id=engine_id)
        self._start(client, call, lambda: self._generate(generation, request, arrived_at))

    def _start_job(self, client: ClientSession, call: int, handler: Handler) -> None:
        task = client.jobs[call] = self._start(client, call, handler)
        task.add_done_callback(lambda _: client.jobs.pop(call, None))
        task.add_done_callback(lambda _: self._record_finished())

    def _start(self, client: ClientSession, call: int, handler: Handler) -> asyncio.Task[None]:
        task = self._loop.create_task(self._reply(client, call, handler))
        self._unanswered.add(task)
        task.add_done_callback(self._record_reply)
        self._report_activity()
        return task

    def _record_reply(self, task: asyncio.Task[None]) -> None:
        self._unanswered.discard(task)
        self._report_activity()
        self._check_drained()

    async def _reply(self, client: ClientSession, call: int, handler: Handler) -> None:
        """Send the handler's reply, or its error."""
        try:
            client.send(await handler())
        except EngineError as error:
            client.send(frames.error_reply(call, error))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # tokenizers and llguidance panic with BaseException
            logger.exception("engine.call_failed")
            client.send(
                frames.error_reply(call, EngineError(f"The engine failed on this request: {type(error).__name__}."))
            )

    async def _generate(self, generation: _ActiveGeneration, request: GenerationRequest, arrived_at: float) -> Frame:
        """Submit a generation in a thread, because it tokenizes and compiles constraints. Users take turns.

        The first outputs may be sent before this reply.
        """
        try:
            self._check_not_draining()
            engine = self._causal_engine()
            async with self._submission_semaphore.acquire(user=request.user, batch=request.batch):
                if generation.cancelled:
                    raise InvalidRequest("The request was cancelled before it started.")
                usage = await self._loop.run_in_executor(self._submission_threads, engine.submit, request, arrived_at)
        except BaseException:
            self._forget(request.request_id)
            raise
        if generation.cancelled:
            engine.cancel(request.request_id)
        return frames.GenerationAccepted(generation.call, usage.prompt_tokens)

    async def _embed(self, call: int, request: EmbeddingRequest) -> Frame:
        self._check_not_draining()
        if self._embedder is None:
            raise InvalidRequest(
                f"{self._model_id} {self._kind}; use an embedding model for embeddings.", capability="embeddings"
            )
        return frames.EmbedReply(call, await self._encode(request, self._embedder.embed))

    async def _score(self, call: int, request: ScoringRequest, engine_id: str, arrived_at: float) -> Frame:
        self._check_not_draining()
        if request.questions:
            request = msgspec.structs.replace(request, request_id=engine_id)
            return frames.ScoreReply(call, await self._score_answers(request, arrived_at))
        if self._scorer is None:
            raise InvalidRequest(
                f"{self._model_id} {self._kind}; use a cross-encoder or an embedding model to score texts.",
                capability="rerank",
            )
        return frames.ScoreReply(call, await self._encode(request, self._scorer.score))

    async def _score_answers(self, request: ScoringRequest, arrived_at: float) -> ScoringResult:
        """Submit questions in a thread, because they are tokenized, and return their scores. Users take turns."""
        score, cancelled = self._causal_engine().score, threading.Event()
        try:
            async with self._submission_semaphore.acquire(user=request.user, batch=request.batch):
                scores = await self._loop.run_in_executor(
                    self._submission_threads, score, request, cancelled, arrived_at
                )
            return await asyncio.shield(asyncio.wrap_future(scores))
        finally:
            cancelled.set()

    async def _encode(
        self, request: EncoderRequest, run: Callable[[EncoderRequest, threading.Event], Result]
    ) -> Result:
        """Run a request to an encoder in a thread. Users take turns."""
        if self._embeddings >= self._max_queue:
            seconds = self._embedding_semaphore.estimate_wait(self._embeddings)
            raise EngineOverloaded(
                f"The queue is full: {self._embeddings} requests are waiting. Try again in {seconds} s.",
                retry_after=seconds,
                reason="queue_full",
            )
        self._embeddings += 1
        cancelled = threading.Event()
        try:
            async with self._embedding_semaphore.acquire(user=request.user, batch=request.batch):
                return await self._loop.run_in_executor(self._embedding_threads, run, request, cancelled)
        finally:
            cancelled.set()
            self._embeddings -= 1

    async def _tokenize(self, call: int, request: TokenizationRequest) -> Frame:
        result = await self._loop.run_in_executor(self._tokenizer_thread, self._tokenizer().tokenize, request)
        return frames.Tokens(call, result)

    async def _detokenize(self, call: int, ids: tuple[int, ...]) -> Frame:
        text = await self._loop.run_in_executor(self._tokenizer_thread, self._tokenizer().detokenize, list(ids))
        return frames.Text(call, text)

    def _stats(self, call: int) -> Frame:
        """Return the counters. It is no activity, so a monitored model can be idle."""
        if self._engine is not None:
            return frames.Stats(call, self._engine.stats())
        running = min(self._embeddings, 1)
        return frames.Stats(call, EngineStats(running=running, waiting=self._embeddings - running, slots=1))

    @property
    def cache_bytes(self) -> int:
        """Return the memory that the model's KV cache takes now; 0 before it is loaded."""
        return self._engine.stats().cache_bytes if self._engine is not None else 0

    def _tokenizer(self) -> TokenizerInterface:
        tokenizer = self._engine or self._scorer
        assert tokenizer is not None, "the server is open, so a model is loaded"
        return tokenizer

    def _causal_engine(self) -> EngineInterface:
        if self._engine is None:
            raise InvalidRequest(
                f"{self._model_id} {self._kind}; use a text-generation model for this request.",
                capability="text-generation",
            )
        return self._engine

    @property
    def _kind(self) -> str:
        """Return what the model does, for errors."""
        return "generates text" if self._scorer is None else self._scorer.kind

    def _check_not_draining(self) -> None:
        if self._draining:
            raise ModelNotLoaded(
                f"{self._model_id} is being unloaded; load it again first.", state=ModelState.UNLOADING, retry_after=1
            )

    def _cancel(self, client: ClientSession, call: int) -> None:
        engine_id = f"{client.number}-{call}"
        generation = self._generations.get(engine_id)
        if generation is not None:
            self._cancel_generation(engine_id, generation)
        elif call in client.jobs:
            client.jobs[call].cancel()

    def _cancel_generation(self, engine_id: str, generation: _ActiveGeneration) -> None:
        """Cancel a generation. The engine may not know it yet; then `_generate` cancels it after its submission."""
        generation.cancelled = True
        if self._engine is not None:
            self._engine.cancel(engine_id)

    def _disconnect(self, client: ClientSession) -> None:
        self._clients.discard(client)
        client.gone.set()
        client.channel.close()
        for job in list(client.jobs.values()):
            job.cancel()
        for engine_id, generation in list(self._generations.items()):
            if generation.client is client:
                self._cancel_generation(engine_id, generation)
