"""The loop: schedule, run, sample, emit. One thread; everything else asks it under one lock."""

import logging
import threading
import time
from collections.abc import Callable, Iterator

from torch import Tensor

from inference.engine.detokenizer import TextStream
from inference.engine.errors import ContextLengthExceeded, EngineOverloaded, InvalidRequest
from inference.engine.request import EngineStats, FinishReason, GenerationOutput, GenerationRequest, LoadOptions, Usage
from inference.engine.sampler import Sampler, check_sampling
from inference.engine.scheduler import Plan, Scheduler, Sequence
from inference.engine.spans import Decoder, Span
from inference.engine.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

Emit = Callable[[list[GenerationOutput]], None]


class Engine:
    """Generates for many requests at once; a request's output depends on nothing but itself, the model and its seed.

    `emit` gets, once a step and from the loop thread, all that the step produced. It must not block or raise. The
    first outputs of a request may reach it before `submit` has returned.
    """

    def __init__(
        self,
        *,
        decoder: Decoder,
        tokenizer: Tokenizer,
        eos_ids: frozenset[int],
        context_size: int,
        options: LoadOptions,
        emit: Emit,
    ) -> None:
        self._decoder = decoder
        self._tokenizer = tokenizer
        self._eos_ids = eos_ids
        self._context_size = context_size
        self._slots = options.max_sequences
        self._emit = emit
        self._sampler = Sampler(slots=self._slots, context_size=context_size)
        self._scheduler = Scheduler(slots=self._slots, batch_size=options.batch_size, max_queue=options.max_queue)
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)

    def start(self) -> None:
        """Starts the loop thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends all requests with `cancelled` and waits for the loop thread."""
        with self._wake:
            self._stopping = True
            for sequence in self._scheduler.sequences():
                sequence.cancelled = True
            self._wake.notify()
        self._thread.join()

    def submit(self, request: GenerationRequest) -> Usage:
        """Queues a request, from any thread, and returns its prompt's token count.

        Raises InvalidRequest, ContextLengthExceeded, or EngineOverloaded when the queue is full or the engine stops.
        """
        check_sampling(request.sampling)
        prompt_ids = self._encode(request)
        sequence = Sequence(
            request_id=request.request_id,
            prompt_ids=prompt_ids,
            max_tokens=self._max_tokens(len(prompt_ids), request.sampling.max_tokens),
            sampling=request.sampling,
            text=TextStream(self._tokenizer.decode, request.sampling.stop),
        )
        with self._wake:
            if self._stopping:
                raise EngineOverloaded(
                    "The model is being unloaded. Try again later.", retry_after=1, reason="stopping"
                )
            if self._scheduler.find(request.request_id):
                raise InvalidRequest(f"A request with the id {request.request_id!r} is running. Use another.")
            self._scheduler.add(sequence)
            self._wake.notify()
        return Usage(len(prompt_ids), 0)

    def _encode(self, request: GenerationRequest) -> list[int]:
        if (request.prompt is None) == (request.messages is None):
            raise InvalidRequest("Send either `prompt` or `messages`.")
        if request.messages is not None:
            prompt_ids = self._tokenizer.encode_chat(request.messages)
        else:
            prompt_ids = self._tokenizer.encode(request.prompt or "")
        if not prompt_ids:
            raise InvalidRequest("The prompt is empty. Send at least one character.")
        return prompt_ids

    def _max_tokens(self, prompt_tokens: int, asked: int | None) -> int:
        left = self._context_size - prompt_tokens
        if left < (asked or 1):
            wanted = f"{prompt_tokens} tokens and {asked or 'at least 1'} are to be generated"
            raise ContextLengthExceeded(
                f"The prompt has {wanted}, but the context has {self._context_size}. "
                "Shorten the prompt or lower max_tokens.",
                context_size=self._context_size,
                prompt_tokens=prompt_tokens,
                max_tokens=asked,
            )
        return asked or left

    def cancel(self, request_id: str) -> None:
        """Ends a request, from any thread, at the next step; an unknown id is nothing."""
        with self._wake:
            if sequence := self._scheduler.find(request_id):
                sequence.cancelled = True

    def tokenize(self, text: str) -> list[int]:
        """The ids that `text` has as a prompt."""
        return self._tokenizer.encode(text)

    def detokenize(self, ids: list[int]) -> str:
        """The text of `ids`, without special tokens."""
        return self._tokenizer.decode(ids)

    def stats(self) -> EngineStats:
        with self._wake:
            return EngineStats(running=self._scheduler.running, waiting=self._scheduler.waiting, slots=self._slots)

    def _loop(self) -> None:
        while plan := self._schedule():
            outputs: list[GenerationOutput] = []
            try:
                # The list keeps what the step made before it failed, if it fails.
                outputs.extend(self._step(plan))
            except Exception:
                logger.exception("engine_step_failed")
                outputs.extend(self._fail_running())
            if outputs:
                self._emit(outputs)

    def _schedule(self) -> Plan | None:
        """Waits for work, ends what was cancelled, and plans a step. None when the engine stops."""
        with self._wake:
            self._wake.wait_for(lambda: self._stopping or self._scheduler.sequences())
            cancelled = [sequence for sequence in self._scheduler.sequences() if sequence.cancelled]
            outputs = [self._end(sequence, FinishReason.CANCELLED) for sequence in cancelled]
            plan = None if self._stopping else self._scheduler.schedule(time.monotonic())
        if outputs:
            self._emit(outputs)
        return plan

    def _step(self, plan: Plan) -> Iterator[GenerationOutput]:
        for sequence in plan.admitted:
            self._sampler.admit(sequence.slot, sequence.sampling, sequence.prompt_ids)
        sequences, logits = self._run(plan)
        if sequences:
            tokens = self._sampler.sample(logits, [sequence.slot for sequence in sequences])
            yield from map(self._advance, sequences, tokens)

    def _run(self, plan: Plan) -> tuple[list[Sequence], Tensor]:
        """Runs the model. Returns who gets a token now and their logits, [rows, vocabulary]."""
        sequences = list(plan.decodes)
        spans = [Span(sequence.slot, sequence.position, [sequence.last_token]) for sequence in sequences]
        for chunk in plan.prefills:
            sequence = chunk.sequence
            ids = sequence.prompt_ids[chunk.start : chunk.end]
            sequence.prefilled = chunk.end
            spans.append(Span(sequence.slot, chunk.start, ids, wanted=sequence.decoding))
            if sequence.decoding:
                sequences.append(sequence)
        return sequences, self._decoder.run(spans)

    def _advance(self, sequence: Sequence, token: int) -> GenerationOutput:
        """Takes a sampled token to its request, and ends the request where it ends."""
        sequence.last_token = token
        sequence.generated += 1
        if token in self._eos_ids:
            return self._end(sequence, FinishReason.STOP, sequence.text.flush())
        text = sequence.text.push(token)
        if sequence.text.stopped:
            return self._end(sequence, FinishReason.STOP, text)
        if sequence.generated == sequence.max_tokens:
            return self._end(sequence, FinishReason.LENGTH, text + sequence.text.flush())
        return GenerationOutput(request_id=sequence.request_id, index=sequence.generated - 1, text=text)

    def _end(
        self, sequence: Sequence, reason: FinishReason, text: str = "", error: str | None = None
    ) -> GenerationOutput:
        """Frees the slot and makes the request's last output."""
        with self._wake:
            self._scheduler.finish(sequence, time.monotonic())
        sampled = reason in (FinishReason.STOP, FinishReason.LENGTH)
        return GenerationOutput(
            request_id=sequence.request_id,
            index=sequence.generated - 1 if sampled else sequence.generated,
            text=text,
            finish_reason=reason,
            usage=Usage(len(sequence.prompt_ids), sequence.generated),
            error=error,
        )

    def _fail_running(self) -> list[GenerationOutput]:
        """Ends whoever has a slot with an error, and forgets what the failed step may have left in the cache."""
        self._decoder.clear()
        with self._wake:
            running = [sequence for sequence in self._scheduler.sequences() if sequence.slot >= 0]
            error = "The engine failed while it ran this request. Try again; if it fails again, reload the model."
            return [self._end(sequence, FinishReason.ERROR, error=error) for sequence in running]
