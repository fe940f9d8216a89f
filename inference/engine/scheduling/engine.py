"""The loop: schedule, run, sample, emit. One thread; everything else asks it under one lock."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec
import torch

from inference.engine.errors import EngineOverloaded, InvalidRequest
from inference.engine.model_status import EngineStats, LoadOptions
from inference.engine.models import Decoder
from inference.engine.outputs import FinishReason, GenerationOutput, Usage
from inference.engine.prompt_limits import PromptLimits
from inference.engine.requests import GenerationRequest
from inference.engine.sampling.sampler import Parked, Sampled, Sampler
from inference.engine.scheduling.input_processor import Intake
from inference.engine.scheduling.scheduler import Plan, Scheduler
from inference.engine.scheduling.sequence import Generation, Sequence
from inference.engine.scheduling.step import note_computed, score_prompts, to_spans
from inference.engine.text import Tokenizer

logger = logging.getLogger(__name__)

Emit = Callable[[list[GenerationOutput]], None]
# From the slots in use and how many places of each are filled, to a decoder that holds the same there.
MakeDecoder = Callable[[Mapping[int, int]], Decoder]

TIMEOUT = "TIMEOUT"
LOOP_DIED = 70  # exit status: EX_SOFTWARE
FAILED = "The engine failed while it ran this request. Try again; if it fails again, reload the model."
LOST_FORM = "The text could not be kept to the form that was asked for: {}. Ask for a simpler form."
NOT_NUMBERS = (
    "The model computed no numbers for this text: its weights are broken, or the text leads it astray. Try another."
)
LATE = "The time limit passed before the generation was whole. Allow more with `timeout`, or ask for fewer tokens."


class Engine:
    """Generates for many requests at once; a request's output depends on nothing but itself, the model and its seed.

    `emit` gets, once a step and from the loop thread, all that the step produced. It must not block or raise. The
    first outputs of a request may reach it before `submit` has returned. vocabulary: how many tokens the decoder knows.
    """

    def __init__(
        self,
        *,
        decoder: Decoder,
        tokenizer: Tokenizer,
        eos_ids: frozenset[int],
        context_size: int,
        vocabulary: int,
        options: LoadOptions,
        emit: Emit,
    ) -> None:
        self._decoder = decoder
        self._make_next: MakeDecoder | None = None
        self._tokenizer = tokenizer
        self._slots = options.max_sequences
        self._cache_capacity = options.max_sequences * context_size
        self._emit = emit
        self._intake = Intake(tokenizer=tokenizer, eos_ids=eos_ids, context_size=context_size, vocabulary=vocabulary)
        self._sampler = Sampler(slots=self._slots, context_size=context_size, eos_ids=eos_ids)
        self._parked: dict[Sequence, Parked] = {}
        self._scheduler = Scheduler(
            slots=self._slots,
            batch_size=options.batch_size,
            max_queue=options.max_queue,
            max_queue_tokens=options.max_queue_tokens,
        )
        self._wake = threading.Condition()
        self._unwanted: list[Generation] = []
        self._stopping = False
        self._thread = threading.Thread(target=self._live, name="engine", daemon=True)

    def start(self) -> None:
        """Starts the loop thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends all requests with `cancelled` and waits for the loop thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def submit(self, request: GenerationRequest, arrived_at: float | None = None) -> Usage:
        """Queues a request, from any thread, and returns its prompt's token count.

        arrived_at: when it came, on the monotonic clock, from which its time limit counts; None is now.
        Raises InvalidRequest, ContextLengthExceeded, or EngineOverloaded when the queue is full or the engine stops.
        """
        generation = self._intake.take(request, time.monotonic() if arrived_at is None else arrived_at)
        with self._wake:
            if self._stopping:
                raise EngineOverloaded(
                    "The model is being unloaded. Try again later.", retry_after=1, reason="stopping"
                )
            if self._scheduler.find(request.request_id):
                raise InvalidRequest(f"A request with the id {request.request_id!r} is running. Use another.")
            self._scheduler.add(generation)
            self._wake.notify()
        return Usage(len(generation.prompt_ids), 0)

    def swap(self, make: MakeDecoder) -> None:
        """Goes on with another decoder of the same model, from any thread. The loop's thread makes it between two
        steps; if it cannot be made, the loop goes on with the one before."""
        with self._wake:
            self._make_next = make
            self._wake.notify()

    def _swap(self, make: MakeDecoder) -> None:
        try:
            self._decoder = make(self._scheduler.held())
        except (MemoryError, RuntimeError):
            logger.exception("engine_decoder_not_swapped")
            return
        self._scheduler.forget_slots()
        logger.info("engine_decoder_swapped")

    def cancel(self, request_id: str) -> None:
        """Ends a request, from any thread, at the next step; an unknown id is nothing."""
        with self._wake:
            if generation := self._scheduler.find(request_id):
                self._unwanted.append(generation)

    def tokenize(self, text: str) -> list[int]:
        """The ids that `text` has as a prompt."""
        return self._tokenizer.encode(text)

    def detokenize(self, ids: list[int]) -> str:
        """The text of `ids`, without special tokens. InvalidRequest: no token has one of them."""
        return self._tokenizer.text_of(ids)

    @property
    def limits(self) -> PromptLimits:
        """Of what it takes, for who looks before it sends."""
        return self._intake.limits

    @property
    def decoder(self) -> Decoder:
        """The one in use."""
        return self._decoder

    def stats(self) -> EngineStats:
        """What the last step left."""
        with self._wake:
            scheduler, counts = self._scheduler, self._scheduler.counts
            return EngineStats(
                running=scheduler.running,
                waiting=scheduler.waiting,
                slots=self._slots,
                cache_tokens=scheduler.cache_tokens,
                cache_capacity=self._cache_capacity,
                prefix_cache_queries=counts.prefix_cache_queries,
                prefix_cache_hits=counts.prefix_cache_hits,
                preemptions=counts.preemptions,
                generated_tokens=counts.generated_tokens,
                queue_counts=tuple(counts.queue_counts),
                queue_seconds=counts.queue_seconds,
            )

    def _live(self) -> None:
        """Nobody would be answered any more without the loop; a process that ends is started again."""
        try:
            self._loop()
        except BaseException:
            logger.exception("engine_loop_died")
            os._exit(LOOP_DIED)

    @torch.inference_mode()
    def _loop(self) -> None:
        while plan := self._schedule():
            outputs: list[GenerationOutput] = []
            try:
                # The list keeps what the step made before it failed, if it fails.
                outputs.extend(self._step(plan))
            except BaseException:  # tokenizers and llguidance panic, which is no Exception
                logger.exception("engine_step_failed")
                outputs.extend(self._fail_running())
            if outputs:
                self._emit(outputs)

    def _has_work(self) -> bool:
        """Asked before every step, and whenever something is new."""
        return bool(self._stopping or self._make_next or self._scheduler.waiting or self._scheduler.running)

    def _schedule(self) -> Plan | None:
        """Waits for work, ends what is unwanted or late, and plans a step. None when the engine stops."""
        with self._wake:
            self._wake.wait_for(self._has_work)
            make, self._make_next = self._make_next, None
        if make and not self._stopping:
            self._swap(make)
            return self._schedule()
        with self._wake:
            now = time.monotonic()
            unwanted, self._unwanted = self._unwanted, []
            outputs = self._end_all(self._scheduler.generations() if self._stopping else unwanted)
            outputs += self._end_all(self._scheduler.expired(now), FinishReason.ERROR, LATE, TIMEOUT)
            plan = None if self._stopping else self._scheduler.schedule(now)
        if outputs:
            self._emit(outputs)
        return plan

    def _step(self, plan: Plan) -> Iterable[GenerationOutput]:
        for sequence, slot in plan.parked:
            self._parked[sequence] = self._sampler.park(slot)
        for sequence in plan.admitted:
            self._admit(sequence)
        for copy in plan.copies:
            self._decoder.copy(copy.source, copy.target, copy.length)
        for slot, start in plan.cleared:
            self._decoder.clear(slot, start)
        sequences, spans = to_spans(plan)
        if not spans:  # all have just ended
            return
        logits = self._decoder.run(spans)
        note_computed(plan)
        logits = score_prompts(plan, logits, self._intake.describe)
        if sequences:
            self._scheduler.counts.generated_tokens += len(sequences)
            sampled = self._sampler.sample(logits, [sequence.slot for sequence in sequences])
            yield from filter(None, map(self._advance, sequences, sampled))

    def _admit(self, sequence: Sequence) -> None:
        if parked := self._parked.pop(sequence, None):
            self._sampler.resume(sequence.slot, parked)
        else:
            self._sampler.admit(sequence.slot, sequence.sampling, sequence.generation.prompt_ids, sequence.constraint)

    def _advance(self, sequence: Sequence, sampled: Sampled) -> GenerationOutput | None:
        """Takes a sampled token to its choice, and ends the choice where it ends. None: see `Writer.write`."""
        generation, writer = sequence.generation, sequence.writer
        if generation.echo is not None and not writer.tokens:
            writer.open_with(generation.echo, tuple(generation.prompt_logprobs))
        if sampled.broken:
            self._decoder.clear(sequence.slot)
            sequence.computed = 0  # so that nobody takes over what the slot held
            return self._end(sequence, writer.break_off(FinishReason.ERROR, NOT_NUMBERS))
        if sampled.failure:
            return self._end(sequence, writer.break_off(FinishReason.ERROR, LOST_FORM.format(sampled.failure)))
        output = writer.write(sampled)
        sequence.ids.append(sampled.token)
        generation.completion_tokens += 1
        if output is None or output.finish_reason is None:
            return output
        return self._end(sequence, output)

    def _end(self, sequence: Sequence, output: GenerationOutput) -> GenerationOutput:
        """Frees the slot. The last choice's last output tells the usage."""
        if sequence.slot >= 0:
            self._sampler.release(sequence.slot)
        self._parked.pop(sequence, None)
        whole, now = output.finish_reason not in (FinishReason.CANCELLED, FinishReason.ERROR), time.monotonic()
        with self._wake:
            self._scheduler.finish(sequence, now, whole=whole)
        generation = sequence.generation
        return output if generation.choices else msgspec.structs.replace(output, usage=generation.usage(now))

    def _end_all(
        self,
        generations: list[Generation],
        reason: FinishReason = FinishReason.CANCELLED,
        error: str | None = None,
        error_code: str | None = None,
    ) -> list[GenerationOutput]:
        return [
            self._end(sequence, sequence.writer.break_off(reason, error, error_code))
            for generation in generations
            for sequence in list(generation.choices)
        ]

    def _fail_running(self) -> list[GenerationOutput]:
        """Ends whoever has a slot with an error, and forgets what the failed step may have left in the cache."""
        self._decoder.clear()
        with self._wake:
            hit = [one for one in self._scheduler.generations() if any(map(self._is_in_the_model, one.choices))]
            outputs = self._end_all(hit, FinishReason.ERROR, FAILED)
            self._scheduler.forget_slots()
        if traced := [one.traceparent for one in hit if one.traceparent]:
            logger.error("engine_requests_failed, of these traces: %s", ", ".join(traced))
        return outputs

    def _is_in_the_model(self, sequence: Sequence) -> bool:
        """Who has to make room in the step that failed may not have got out."""
        return sequence.slot >= 0 or (sequence.writer.tokens > 0 and sequence not in self._parked)
