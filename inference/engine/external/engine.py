"""An external engine behind the engine interface: our queue and our texts, and its server's tokens."""

import asyncio
import contextlib
import hmac
import logging
import os
import threading
import time
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from dataclasses import replace

import msgspec
import uvloop

from inference.engine.errors import EngineOverloaded, InferenceFailed, InvalidRequest
from inference.engine.external.dialects import InvalidEvent, Prompt, StreamEvent, dialect_of
from inference.engine.external.event_stream import EventStream
from inference.engine.external.kinds import ENGINE_KINDS, STOA
from inference.engine.external.server import EngineServer, ServerPlan
from inference.engine.model_status import EngineStats
from inference.engine.outputs import FinishReason, GenerationOutput, ScoringResult, TokenizationResult, Usage
from inference.engine.process_memory import tree_bytes
from inference.engine.prompt_limits import PromptLimits
from inference.engine.requests import GenerationRequest, ScoringRequest, TokenizationRequest
from inference.engine.sampling import SamplingParams
from inference.engine.sampling.grammars import PARAMETERS
from inference.engine.sampling.sampler import SampledToken
from inference.engine.scheduling import AnswerProcessor, Generation, Scheduler, Sequence
from inference.engine.scheduling.engine import TIMED_OUT, TIMEOUT_CODE, Emit
from inference.engine.scheduling.input_processor import InputProcessor
from inference.engine.scheduling.output_processor import OutputProcessor
from inference.engine.text import Tokenizer

logger = logging.getLogger(__name__)

SERVER_ENDED_STATUS = 70  # EX_SOFTWARE
HEALTH_SECONDS = 5.0
MAX_UNHEALTHY = 3  # checks in a row
TOKEN_SECONDS = 300.0  # until the first token of a long prompt, and between two
GATHER_SECONDS = 0.002  # in which tokens of several sequences are emitted together
LEAK_FACTOR, LEAK_BYTES = 1.5, 2**30  # memory over what was counted at the load


class ExternalEngine:
    """Concurrent generation by an engine's server, one stream of it for each sequence with a slot.

    The host restarts this process if the server ends, does not answer, or takes far more memory than was counted.
    """

    def __init__(
        self,
        *,
        plan: ServerPlan,
        tokenizer: Tokenizer,
        eos_ids: frozenset[int],
        vocabulary: int,
        emit: Emit,
    ) -> None:
        self._plan, self._tokenizer, self._eos_ids, self._emit = plan, tokenizer, eos_ids, emit
        self._dialect = dialect_of(plan.kind)
        options = plan.options
        self._input_processor = InputProcessor(
            tokenizer=tokenizer, eos_ids=eos_ids, context_size=plan.context_size, vocabulary=vocabulary
        )
        self._scheduler = Scheduler(
            slots=options.max_sequences,
            batch_size=options.batch_size,
            max_queue=options.max_queue,
            max_queue_tokens=options.max_queue_tokens,
            reuses_prefixes=False,  # the server has its own cache
        )
        self._vocabulary = vocabulary
        self._slot_users: dict[int, str] = {}
        self._lock = threading.Lock()  # of the scheduler
        self._streams: dict[Sequence, asyncio.Task[None]] = {}
        self._outputs: list[GenerationOutput] = []
        self._stopping = False
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine", daemon=True)
        self._thread.start()
        self._server: EngineServer | None = None
        self.kind = plan.kind
        self.cache_bytes = plan.cache_bytes
        self.gpu_share = plan.gpu_share
        self.gpu_weight_bytes = round(plan.weight_bytes * plan.gpu_share)
        self.gpu_bytes = self.gpu_weight_bytes + round(plan.cache_bytes * plan.gpu_share)
        self.loaded_bytes = 0  # of the server when it was ready, without the GPU's

    def launch(self) -> None:
        """Start the server, and wait until it is ready. Raise ModelLoadFailed."""
        asyncio.run_coroutine_threadsafe(self._launch(), self._loop).result()

    async def _launch(self) -> None:
        self._server = EngineServer(self._plan)
        try:
            await self._server.wait_ready()
        except BaseException:
            self._server.close()
            raise
        self.loaded_bytes = tree_bytes(os.getpid())

    def start(self) -> None:
        """Begin to watch the server."""
        asyncio.run_coroutine_threadsafe(self._watch(), self._loop)

    def stop(self) -> None:
        """End all requests with `cancelled`, and the server with its processes."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def submit(self, request: GenerationRequest, arrived_at: float | None = None) -> Usage:
        """Queue a request and return its prompt's token count. Thread-safe. Raise as `scheduling.Engine.submit`."""
        self._check(request)
        generation = self._input_processor.process(request, time.monotonic() if arrived_at is None else arrived_at)
        for choice in generation.choices:
            choice.is_preemptible = _is_preemptible(choice.sampling)
        with self._lock:
            if self._stopping:
                raise EngineOverloaded(
                    "The model is being unloaded. Try again later.", retry_after=1, reason="stopping"
                )
            self._scheduler.add(generation)
        self._loop.call_soon_threadsafe(self._begin, generation)
        return Usage(len(generation.prompt_ids), 0)

    def score(
        self, request: ScoringRequest, cancelled: threading.Event, arrived_at: float | None = None
    ) -> Future[ScoringResult]:
        """Raise InvalidRequest: engines' servers have no scores of answers."""
        raise self._unsupported("scores of answers", "questions")

    def cancel(self, request_id: str) -> None:
        """End a request. An unknown id is ignored. Thread-safe."""
        self._loop.call_soon_threadsafe(self._cancel, request_id)

    def tokenize(self, request: TokenizationRequest) -> TokenizationResult:
        """Return the tokens of a text or of a conversation. Raise InvalidRequest or ContextLengthExceeded."""
        return self._input_processor.tokenize(request)

    def detokenize(self, ids: list[int]) -> str:
        """Return the text of `ids` without special tokens. Raise InvalidRequest for an unknown id."""
        return self._tokenizer.decode_checked(ids)

    @property
    def limits(self) -> PromptLimits:
        return self._input_processor.limits

    def stats(self) -> EngineStats:
        """Return the counters of the queue. The cache is the server's own."""
        options = self._plan.options
        with self._lock:
            return self._scheduler.stats(cache_capacity=options.max_sequences * self._plan.context_size, cache_bytes=0)

    def _check(self, request: GenerationRequest) -> None:
        """Raise InvalidRequest for what the engine's server does not have."""
        constraint = request.sampling.constraint
        if request.echo or request.prompt_only:
            raise self._unsupported("`echo`", "echo")
        if constraint and constraint.kind not in self.kind.constraints:
            able = [kind.name for kind in ENGINE_KINDS.values() if constraint.kind in kind.constraints]
            parameter = constraint.parameter or PARAMETERS[constraint.kind]
            raise self._unsupported(f"structured output of the kind {constraint.kind}", parameter, *able)
        if request.sampling.min_tokens and not self.kind.has_min_tokens:
            able = [kind.name for kind in ENGINE_KINDS.values() if kind.has_min_tokens]
            raise self._unsupported("`min_tokens`", "min_tokens", *able)
        if request.tools and not request.parallel_tool_calls:
            raise self._unsupported("limit of tool calls", "parallel_tool_calls")
        if request.tools and request.tool_choice not in ("auto", "none"):
            raise self._unsupported("`tool_choice` other than auto and none", "tool_choice")

    def _unsupported(self, what: str, parameter: str | None, *able: str) -> InvalidRequest:
        """Return the error for what this engine does not have. able: other engines that do, beside ours."""
        engines = " or ".join([STOA, *able])
        return InvalidRequest(
            f"This model runs on {self.kind.name}, which has no {what} here. Load it with `engine` {engines}.",
            parameter=parameter,
        )

    def _begin(self, generation: Generation) -> None:
        if generation.deadline != float("inf"):
            delay = max(0.0, generation.deadline - time.monotonic())
            self._loop.call_later(delay, self._expire, generation.deadline)
        self._admit()

    def _admit(self) -> None:
        """Give free slots to waiting sequences, and slots of batch work to interactive requests."""
        with self._lock:
            while (plan := self._scheduler.admit(time.monotonic())).admitted:
                for sequence, _ in plan.preempted:
                    self._streams.pop(sequence).cancel()
                for sequence in plan.admitted:
                    self._streams[sequence] = self._loop.create_task(self._stream(sequence))

    async def _stream(self, sequence: Sequence) -> None:
        """Emit the outputs of a sequence to its end. An answer that the engine ends itself is read on for its usage."""
        name, last, generation = self.kind.name, None, sequence.generation
        # A request's cached tokens are those of its first choice, when that begins.
        is_counted = sequence.choice != 0 or len(sequence.ids) > len(generation.prompt_ids)
        error = f"{name} ended the answer without its last token. Try again."
        try:
            async with contextlib.aclosing(self._events(sequence)) as events:
                async for event in events:
                    if event.cached_tokens is not None and not is_counted:
                        is_counted = True
                        self._count_cached(generation, event.cached_tokens)
                    last = last or self._take(sequence, event)
                    if last and last.finish_reason is FinishReason.STOP and not event.ended:
                        break
        except (InvalidEvent, InferenceFailed) as failure:
            logger.warning("engine.stream_failed engine=%s reason=%r", name, str(failure))
            error = f"{name} failed: {failure}. Try again."
        except Exception as failure:  # whatever a server makes of its documented forms
            logger.warning("engine.stream_failed engine=%s reason=%s", name, type(failure).__name__)
            error = f"{name} failed: {type(failure).__name__}. Try again."
        self._end(sequence, last or _processor(sequence).abort(FinishReason.ERROR, error))

    def _count_cached(self, generation: Generation, tokens: int) -> None:
        generation.cached_tokens = max(0, min(tokens, len(generation.prompt_ids)))
        with self._lock:
            self._scheduler.counts.prefix_cache_hits += generation.cached_tokens

    def _take(self, sequence: Sequence, event: StreamEvent) -> GenerationOutput | None:
        """Emit the outputs of an event. Return the sequence's last one, which is not emitted, if it has ended."""
        generation, processor = sequence.generation, _processor(sequence)
        tokens = self._whole(event)
        if event.ended not in (None, "stop", "length"):
            raise InferenceFailed(f"it ended the answer with {event.ended[:30]!r}")
        if event.ended == "stop" and self._eos_ids and (not tokens or tokens[-1].token not in self._eos_ids):
            tokens = [*tokens, SampledToken(min(self._eos_ids))]  # servers leave the end token out
        for token in tokens:
            if not 0 <= token.token < self._vocabulary:
                raise InvalidEvent("a token that the model does not have")
            if generation.prefilled_at is None:
                generation.prefilled_at = time.monotonic()
            output = processor.process(_ranked(token, sequence.sampling.logprobs))
            sequence.ids.append(token.token)
            sequence.computed += 1
            generation.completion_tokens += 1
            with self._lock:
                self._scheduler.count_token(sequence)
            if output is not None and output.finish_reason is not None:
                return output
            if output is not None:
                self._emit_soon(output)
        if event.ended == "length":  # before our count: some tokens did not come
            return processor.finish_early()
        return None

    def _whole(self, event: StreamEvent) -> list[SampledToken]:
        """Return the new tokens of an event, with those before its last one that the engine has left out."""
        if len(event.tokens) != 1 or event.text.isascii():
            return event.tokens
        (last,), text = event.tokens, event.text.encode()
        ids = self._tokenizer.encode(event.text, add_special_tokens=False)
        while ids and b"".join(map(self._tokenizer.token_bytes, ids)) != text:
            ids = ids[1:]  # a tokenizer may begin a text with a space
        return [*map(SampledToken, ids[:-1]), last] if ids[-1:] == [last.token] else event.tokens

    async def _events(self, sequence: Sequence) -> AsyncGenerator[StreamEvent, None]:
        assert self._server is not None
        processor = _processor(sequence)
        prompt = Prompt(
            ids=sequence.ids,
            max_tokens=processor.max_tokens - processor.tokens,
            min_tokens=max(0, sequence.sampling.min_tokens - processor.tokens),
            sampling=sequence.sampling,
            slot=sequence.slot,
            salt=self._salt(sequence.generation.user),
            reuses_slot=self._slot_users.get(sequence.slot) == sequence.generation.user,
        )
        self._slot_users[sequence.slot] = sequence.generation.user
        total = 0
        stream = EventStream(self._dialect.path, self._plan.key, self._dialect.request(prompt))
        await self._server.connect(stream)
        try:
            async for data in stream.events(seconds=TOKEN_SECONDS):
                if data == b"[DONE]":
                    return
                event = self._dialect.parse(data)
                if event.total is not None:
                    new, total = max(0, event.total - total), max(event.total, total)
                    event = replace(event, tokens=event.tokens[-new:] if new else [])
                yield event
        finally:
            stream.close()

    def _salt(self, user: str) -> str:
        """Return what keeps a user's cached prefixes from others: a hit would reveal their prompts."""
        return hmac.new(self._plan.key.encode(), user.encode(), "sha256").hexdigest()

    def _end(self, sequence: Sequence, output: GenerationOutput) -> None:
        """Free the slot of a choice and emit its last output, with usage if it is the request's last."""
        generation, now = sequence.generation, time.monotonic()
        if sequence not in generation.choices:
            return
        if (stream := self._streams.pop(sequence, None)) and stream is not asyncio.current_task(self._loop):
            stream.cancel()
        generation.reasoning_tokens += _processor(sequence).reasoning_tokens
        sequence.computed = 0  # the server's prefix cache is its own
        completed = output.finish_reason not in (FinishReason.CANCELLED, FinishReason.ERROR)
        with self._lock:
            self._scheduler.finish(sequence, now, completed=completed)
        if not generation.choices:
            output = msgspec.structs.replace(output, usage=generation.usage(now))
        self._emit_soon(output)
        self._loop.call_soon(self._admit)

    def _emit_soon(self, output: GenerationOutput) -> None:
        """Emit an output, with those of others that follow at once: each emission wakes the web process."""
        self._outputs.append(output)
        if len(self._outputs) == 1:
            self._loop.call_later(GATHER_SECONDS if len(self._streams) > 1 else 0, self._flush)

    def _flush(self) -> None:
        outputs, self._outputs = self._outputs, []
        if outputs:
            self._emit(outputs)

    def _cancel(self, request_id: str) -> None:
        with self._lock:
            generation = self._scheduler.find(request_id)
        if generation:
            self._abort([generation], FinishReason.CANCELLED)

    def _expire(self, deadline: float) -> None:
        with self._lock:  # the loop's clock may be a millisecond early
            expired = self._scheduler.expired(max(deadline, time.monotonic()))
        self._abort(expired, FinishReason.ERROR, TIMED_OUT, TIMEOUT_CODE)

    def _abort(self, generations: list[Generation], reason: FinishReason, *errors: str) -> None:
        for generation in generations:
            for sequence in list(generation.choices):
                self._end(sequence, _processor(sequence).abort(reason, *errors))

    async def _stop(self) -> None:
        with self._lock:
            self._stopping = True
            generations = self._scheduler.generations()
        self._abort(generations, FinishReason.CANCELLED)
        self._flush()
        if self._server:
            await self._server.client.aclose()
            await asyncio.to_thread(self._server.close)

    async def _watch(self) -> None:
        """End this process when the server ends, does not answer or leaks: the host starts the model again."""
        assert self._server is not None
        ended, failures = asyncio.ensure_future(self._server.wait_ended()), 0
        while failures < MAX_UNHEALTHY and not self._stopping:
            done, _ = await asyncio.wait({ended}, timeout=HEALTH_SECONDS)
            if done:
                return self._give_up(f"ended with status {ended.result()}")
            failures = 0 if await self._server.is_healthy() else failures + 1
            used, counted = tree_bytes(os.getpid()), self.loaded_bytes + round(self.cache_bytes * (1 - self.gpu_share))
            if used > LEAK_FACTOR * counted + LEAK_BYTES:
                return self._give_up(f"takes {used} bytes of memory, where {counted} were counted")
        self._give_up(f"did not answer {MAX_UNHEALTHY} health checks")

    def _give_up(self, reason: str) -> None:
        if not self._stopping:
            logger.error("engine.server_failed engine=%s", self.kind.name)
            os.write(2, f"{self.kind.name} {reason}\n".encode())
            os._exit(SERVER_ENDED_STATUS)


def _processor(sequence: Sequence) -> OutputProcessor:
    assert not isinstance(sequence.output_processor, AnswerProcessor)
    return sequence.output_processor


def _is_preemptible(sampling: SamplingParams) -> bool:
    """Return whether a sequence could go on from its tokens as if nothing had happened.

    A structure would begin anew, random numbers would repeat, and penalties would take the output for the prompt.
    """
    penalties = sampling.presence_penalty or sampling.frequency_penalty
    return sampling.constraint is None and sampling.seed is None and not penalties


def _ranked(token: SampledToken, wanted: int | None) -> SampledToken:
    """Return a token with as many of the most probable tokens as were asked for, the most probable first."""
    if wanted is None:
        return token
    top = sorted(token.top, key=lambda one: -one[1])[:wanted]
    return token._replace(top=tuple(top))
