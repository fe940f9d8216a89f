"""A model process's door: takes calls from its clients and sends each, once a step, what the step made for it."""

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
from typing import Any

import msgspec

from inference.engine.errors import EngineError, EngineOverloaded, InvalidRequest, ModelNotLoaded
from inference.engine.ipc import frames
from inference.engine.ipc.channel import BrokenFrame, Channel
from inference.engine.ipc.client_session import Peer
from inference.engine.ipc.fair_semaphore import Places
from inference.engine.ipc.frames import Frame, StepOutput
from inference.engine.ipc.interface import ServedEmbedder, ServedEngine, ServedModel, ServedTokenizer
from inference.engine.model_status import EngineStats, ModelState
from inference.engine.outputs import GenerationOutput
from inference.engine.prompt_limits import PromptLimits
from inference.engine.requests import EmbeddingRequest, GenerationRequest

logger = logging.getLogger(__name__)
Work = Callable[[], Coroutine[Any, Any, Frame]]

ASKING = frames.Generate | frames.Embed | frames.Tokenize | frames.Detokenize
_END_SECONDS = 2.0
_EMBEDDINGS_AT_ONCE = 16
_TOKENISING_AT_ONCE = 2


class _Generation:
    """A generation from the moment it was asked for until its last output. `left`: its client wants no more of it."""

    def __init__(self, client: Peer, call: int) -> None:
        self.client = client
        self.call = call
        self.left = False


class ModelServer:
    """Lives on the process's event loop; only `emit` is called from another thread."""

    def __init__(self, model_id: str, max_queue: int, tell: Callable[[frames.Activity], None]) -> None:
        """`tell` hears when it becomes busy and idle."""
        self._model_id = model_id
        self._max_queue = max_queue
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._engine: ServedEngine | None = None
        self._embedder: ServedEmbedder | None = None
        self._client_numbers = itertools.count(1)
        self._clients: set[Peer] = set()
        self._generations: dict[str, _Generation] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._busy = False
        self._finished = 0
        self._embeddings = 0
        self._draining = False
        self._drained = asyncio.Event()
        self._tokenising_threads = ThreadPoolExecutor(_TOKENISING_AT_ONCE, "tokenise")
        self._tokenising_places = Places(_TOKENISING_AT_ONCE)
        # What only asks for tokens is in nobody's way.
        self._asking_thread = ThreadPoolExecutor(1, "ask")
        # They wait for the embedder, which runs the texts of all of them together.
        self._embedding_threads = ThreadPoolExecutor(_EMBEDDINGS_AT_ONCE, "embed")
        self._embedding_places = Places(_EMBEDDINGS_AT_ONCE)

    async def open(self, model: ServedModel, path: Path) -> None:
        self._engine, self._embedder = model.engine, model.embedder
        if self._engine is not None:
            self._engine.start()
        self._listener = await asyncio.start_unix_server(self._serve_client, path=path)
        os.chmod(path, 0o600)

    def drain(self) -> None:
        """Refuse what is new; `drained` returns when the rest is finished."""
        self._draining = True
        for client in self._clients:
            client.send(frames.Draining())
        self._check_drained()

    def retire(self) -> bool:
        """Drain if it works for nobody; whether it does."""
        if not self._busy:
            self.drain()
        return self._draining

    async def drained(self) -> None:
        await self._drained.wait()

    async def close(self) -> None:
        """Running generations end with finish_reason `cancelled`; what was sent is delivered as far as clients read.

        Clients leave when they have read all; if this side left first, one that still asks would see a crash.
        """
        self._listener.close()
        if self._engine is not None:
            await asyncio.to_thread(self._engine.stop)
        for client in self._clients:
            client.send(frames.Leaving())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await asyncio.gather(*(client.gone.wait() for client in self._clients))

    def emit(self, outputs: list[GenerationOutput]) -> None:
        """The engine's thread hands over a whole step at once."""
        self._loop.call_soon_threadsafe(self._send_step, outputs)

    def _send_step(self, outputs: list[GenerationOutput]) -> None:
        by_client: dict[Peer, list[StepOutput]] = {}
        for output in outputs:
            generation = self._generations.get(output.request_id)
            if generation is None:
                continue
            by_client.setdefault(generation.client, []).append(StepOutput.of(generation.call, output))
            if output.usage is not None:
                self._forget(output.request_id)
        for client, made in by_client.items():
            client.send(frames.Step(tuple(made)))

    def _forget(self, engine_id: str) -> None:
        del self._generations[engine_id]
        self._note_finished()

    def _note_finished(self) -> None:
        self._finished += 1
        self._note_activity(also=self._finished == 1)
        self._check_drained()

    def _note_activity(self, *, also: bool = False) -> None:
        """`also`: tell though it is as busy as before."""
        busy = bool(self._generations or self._answering)
        if busy != self._busy or also:
            self._busy = busy
            self._tell(frames.Activity(busy, time.monotonic(), self._finished))

    def _check_drained(self) -> None:
        if self._draining and not self._generations and not self._answering:
            self._drained.set()

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Peer(Channel(reader, writer), next(self._client_numbers))
        self._clients.add(client)
        try:
            await client.channel.greet(self._limits())
            while (frame := await client.channel.receive()) is not None:
                self._take(client, frame)
        except BrokenFrame as error:
            client.send(frames.failed(0, InvalidRequest(str(error))))
        finally:
            self._leave(client)

    def _limits(self) -> PromptLimits | None:
        return None if self._engine is None or self._draining else self._engine.limits

    def _take(self, client: Peer, frame: Frame) -> None:
        if isinstance(frame, ASKING):
            self._refuse_in_use(client, frame.call)
        match frame:
            case frames.Generate(call, request):
                self._start_generation(client, call, request)
            case frames.Embed(call, request):
                self._start_job(client, call, lambda: self._embed(call, request))
            case frames.Tokenize(call, text):
                self._start_job(client, call, lambda: self._tokenize(call, text))
            case frames.Detokenize(call, ids):
                self._start_job(client, call, lambda: self._detokenize(call, ids))
            case frames.GetStats(call):
                client.send(self._stats(call))
            case frames.Cancel(call):
                self._cancel(client, call)
            case _:
                raise BrokenFrame(f"{type(frame).__name__} is no command to a model process.")

    def _refuse_in_use(self, client: Peer, call: int) -> None:
        """Of two calls with one number, one could not be cancelled any more."""
        if call in client.jobs or f"{client.number}-{call}" in self._generations:
            raise BrokenFrame(f"The call {call} is not answered yet, and its number comes again.")

    def _start_generation(self, client: Peer, call: int, request: GenerationRequest) -> None:
        engine_id = f"{client.number}-{call}"
        generation = self._generations[engine_id] = _Generation(client, call)
        arrived_at = time.monotonic()
        request = msgspec.structs.replace(request, request_id=engine_id)
        self._start(client, call, lambda: self._generate(generation, request, arrived_at))

    def _start_job(self, client: Peer, call: int, work: Work) -> None:
        task = client.jobs[call] = self._start(client, call, work)
        task.add_done_callback(lambda _: client.jobs.pop(call, None))
        task.add_done_callback(lambda _: self._note_finished())

    def _start(self, client: Peer, call: int, work: Work) -> asyncio.Task[None]:
        task = self._loop.create_task(self._answer(client, call, work))
        self._answering.add(task)
        task.add_done_callback(self._answered)
        self._note_activity()
        return task

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._note_activity()
        self._check_drained()

    async def _answer(self, client: Peer, call: int, work: Work) -> None:
        """Every call is answered, whatever goes wrong with it."""
        try:
            client.send(await work())
        except EngineError as error:
            client.send(frames.failed(call, error))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # tokenizers and llguidance panic, which is no Exception
            logger.exception("engine.call_failed")
            client.send(frames.failed(call, EngineError(f"The engine failed on this: {type(error).__name__}.")))

    async def _generate(self, generation: _Generation, request: GenerationRequest, arrived_at: float) -> Frame:
        """Submitting tokenises and compiles forms, so it is off the loop, and users take turns at it; outputs may be
        sent before this answers."""
        try:
            self._refuse_while_draining()
            engine = self._causal()
            async with self._tokenising_places.taken(user=request.user, batch=request.batch):
                if generation.left:
                    raise InvalidRequest("It was cancelled before it began.")
                usage = await self._loop.run_in_executor(self._tokenising_threads, engine.submit, request, arrived_at)
        except BaseException:
            self._forget(request.request_id)
            raise
        if generation.left:
            engine.cancel(request.request_id)
        return frames.Accepted(generation.call, usage.prompt_tokens)

    async def _embed(self, call: int, request: EmbeddingRequest) -> Frame:
        self._refuse_while_draining()
        if self._embedder is None:
            raise InvalidRequest(f"{self._model_id} generates text; ask an embedding model for embeddings.")
        if self._embeddings >= self._max_queue:
            wait = self._embedding_places.seconds_until_free(self._embeddings)
            raise EngineOverloaded(
                f"Too many embeddings wait. Try again in {wait} s.", retry_after=wait, reason="queue_full"
            )
        self._embeddings += 1
        left = threading.Event()
        try:
            async with self._embedding_places.taken(user=request.user, batch=request.batch):
                result = await self._loop.run_in_executor(self._embedding_threads, self._embedder.embed, request, left)
        finally:
            left.set()
            self._embeddings -= 1
        return frames.Embedded(call, result)

    async def _tokenize(self, call: int, text: str) -> Frame:
        ids = await self._loop.run_in_executor(self._asking_thread, self._tokenizer().tokenize, text)
        return frames.Tokens(call, tuple(ids))

    async def _detokenize(self, call: int, ids: tuple[int, ...]) -> Frame:
        text = await self._loop.run_in_executor(self._asking_thread, self._tokenizer().detokenize, list(ids))
        return frames.Text(call, text)

    def _stats(self, call: int) -> Frame:
        """At once, and no use of the model: whoever watches it does not keep it loaded."""
        if self._engine is not None:
            return frames.Stats(call, self._engine.stats())
        running = min(self._embeddings, 1)
        return frames.Stats(call, EngineStats(running=running, waiting=self._embeddings - running, slots=1))

    def _tokenizer(self) -> ServedTokenizer:
        tokenizer = self._engine or self._embedder
        assert tokenizer is not None, "calls come to a loaded model only"
        return tokenizer

    def _causal(self) -> ServedEngine:
        if self._engine is None:
            raise InvalidRequest(f"{self._model_id} makes embeddings; ask a text-generation model for this.")
        return self._engine

    def _refuse_while_draining(self) -> None:
        if self._draining:
            raise ModelNotLoaded(
                f"{self._model_id} is being unloaded; load it again first.", state=ModelState.UNLOADING, retry_after=1
            )

    def _cancel(self, client: Peer, call: int) -> None:
        engine_id = f"{client.number}-{call}"
        generation = self._generations.get(engine_id)
        if generation is not None:
            self._abandon(engine_id, generation)
        elif call in client.jobs:
            client.jobs[call].cancel()

    def _abandon(self, engine_id: str, generation: _Generation) -> None:
        """One that is still being submitted is not known to the engine yet; `_generate` looks at `left` when it is."""
        generation.left = True
        if self._engine is not None:
            self._engine.cancel(engine_id)

    def _leave(self, client: Peer) -> None:
        self._clients.discard(client)
        client.gone.set()
        client.channel.close()
        for job in list(client.jobs.values()):
            job.cancel()
        for engine_id, generation in list(self._generations.items()):
            if generation.client is client:
                self._abandon(engine_id, generation)
