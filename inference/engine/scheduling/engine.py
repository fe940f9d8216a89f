"""The engine loop: schedule, run, sample, emit. One thread runs it; other threads call it under one lock."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future

import msgspec
import torch

from inference.engine.core_budget import release_cores, take_cores
from inference.engine.errors import EngineOverloaded, InferenceFailed
from inference.engine.model_status import EngineStats, LoadOptions
from inference.engine.models import Decoder
from inference.engine.outputs import FinishReason, GenerationOutput, ScoringResult, TokenizationResult, Usage
from inference.engine.prompt_limits import PromptLimits
from inference.engine.requests import GenerationRequest, ScoringRequest, TokenizationRequest
from inference.engine.sampling.sampler import PreemptedSampling, SampledToken, Sampler
from inference.engine.scheduling.answers import AnswerProcessor
from inference.engine.scheduling.input_processor import InputProcessor
from inference.engine.scheduling.prefix_cache import common_prefix
from inference.engine.scheduling.scheduler import Scheduler, StepPlan
from inference.engine.scheduling.sequence import Generation, Sequence
from inference.engine.scheduling.step import build_spans, collect_prompt_logprobs, record_computed
from inference.engine.text import Tokenizer

logger = logging.getLogger(__name__)

Emit = Callable[[list[GenerationOutput]], None]
# From the number of filled positions of each slot in use, to a decoder with the same keys and values there.
MakeDecoder = Callable[[Mapping[int, int]], Decoder]

TIMEOUT_CODE = "TIMEOUT"
LOOP_FAILED_STATUS = 70  # EX_SOFTWARE
STEP_FAILED = "The engine failed while it ran this request. Try again; if it fails again, reload the model."
CONSTRAINT_FAILED = "The structured output could not be continued: {}. Use a simpler schema or grammar."
NOT_FINITE = "The model computed NaN or infinity for this text: its weights may be damaged. Try another text or model."
TIMED_OUT = "The time limit passed before the generation was complete. Raise `timeout` or lower `max_tokens`."


class Engine:
    """Concurrent generation on one model. A request's output depends on nothing but itself, the model and its seed."""

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
        """Prepare the loop; `start` runs it.

        emit: receives all outputs of a step, from the loop thread. It must not block or raise. The first outputs of a
            request may precede the return of `submit`.
        vocabulary: number of tokens that the decoder knows.
        """
        self._decoder = decoder
        self._make_next_decoder: MakeDecoder | None = None
        self._tokenizer = tokenizer
        self._slots = options.max_sequences
        self._cache_capacity = options.max_sequences * context_size
        self._emit = emit
        self._input_processor = InputProcessor(
            tokenizer=tokenizer, eos_ids=eos_ids, context_size=context_size, vocabulary=vocabulary
        )
        self._sampler = Sampler(slots=self._slots, context_size=context_size, eos_ids=eos_ids)
        self._preempted: dict[Sequence, PreemptedSampling] = {}
        self._scheduler = Scheduler(
            slots=self._slots,
            batch_size=options.batch_size,
            max_queue=options.max_queue,
            max_queue_tokens=options.max_queue_tokens,
        )
        self._wake = threading.Condition()
        self._cancelled: list[Generation] = []
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Start the loop thread."""
        self._thread.start()

    def stop(self) -> None:
        """End all requests with `cancelled` and wait for the loop thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def submit(self, request: GenerationRequest, arrived_at: float | None = None) -> Usage:
        """Queue a request and return its prompt's token count. Thread-safe.

        arrived_at: time of arrival on the monotonic clock, from which `timeout` counts; None is now.
        Raise InvalidRequest, ContextLengthExceeded, or EngineOverloaded when the queue is full or the engine stops.
        """
        generation = self._input_processor.process(request, time.monotonic() if arrived_at is None else arrived_at)
        self._add(generation)
        return Usage(len(generation.prompt_ids), 0)

    def score(
        self, request: ScoringRequest, cancelled: threading.Event, arrived_at: float | None = None
    ) -> Future[ScoringResult]:
        """Queue a request with questions, and return its future scores. Thread-safe.

        cancelled: when it is set, the remaining questions are dropped.
        Raise as `submit` does; the future raises InferenceFailed, or ModelNotLoaded when the engine stops.
        """
        generation, scoring = self._input_processor.process_questions(
            request,
            time.monotonic() if arrived_at is None else arrived_at,
            cancelled=cancelled,
            sequences=max(1, self._slots // 2),  # other requests find slots free
        )
        self._add(generation)
        return scoring.done

    def _add(self, generation: Generation) -> None:
        with self._wake:
            if self._stopping:
                raise EngineOverloaded(
                    "The model is being unloaded. Try again later.", retry_after=1, reason="stopping"
                )
            self._scheduler.add(generation)
            self._wake.notify()

    def replace_decoder(self, make: MakeDecoder) -> None:
        """Replace the decoder by another one of the same model, between two steps. Thread-safe.

        The loop thread calls `make`. If it fails, the loop continues with the current decoder.
        """
        with self._wake:
            self._make_next_decoder = make
            self._wake.notify()

    def _replace_decoder(self, make: MakeDecoder) -> None:
        try:
            self._decoder = make(self._scheduler.filled_positions())
        except (MemoryError, RuntimeError):
            logger.exception("engine.decoder_replacement_failed")
            return
        self._scheduler.invalidate_prefixes()
        logger.info("engine.decoder_replaced")

    def cancel(self, request_id: str) -> None:
        """End a request at the next step. An unknown id is ignored. Thread-safe."""
        with self._wake:
            if generation := self._scheduler.find(request_id):
                self._cancelled.append(generation)

    def tokenize(self, request: TokenizationRequest) -> TokenizationResult:
        """Return the tokens of a text or of a conversation. Raise InvalidRequest or ContextLengthExceeded."""
        return self._input_processor.tokenize(request)

    def detokenize(self, ids: list[int]) -> str:
        """Return the text of `ids` without special tokens. Raise InvalidRequest for an unknown id."""
        return self._tokenizer.decode_checked(ids)

    @property
    def limits(self) -> PromptLimits:
        """Return the limits that clients check before they send a prompt."""
        return self._input_processor.limits

    @property
    def decoder(self) -> Decoder:
        """Return the current decoder."""
        return self._decoder

    def stats(self) -> EngineStats:
        """Return the counters after the last step."""
        cache_bytes = self._decoder.cache_bytes
        with self._wake:
            return self._scheduler.stats(cache_capacity=self._cache_capacity, cache_bytes=cache_bytes)

    def _run(self) -> None:
        """Run the loop. If it fails, end the process: no request would be answered, and the host restarts it."""
        try:
            self._loop()
        except BaseException:
            logger.exception("engine.loop_failed")
            os._exit(LOOP_FAILED_STATUS)

    @torch.inference_mode()
    def _loop(self) -> None:
        while plan := self._schedule():
            outputs: list[GenerationOutput] = []
            try:
                # `extend` keeps the outputs that a failing step made before its error.
                outputs.extend(self._step(plan))
            except BaseException:  # tokenizers and llguidance panic with BaseException
                logger.exception("engine.step_failed")
                outputs.extend(self._fail_running())
            if outputs:
                self._emit(outputs)

    def _has_work(self) -> bool:
        return bool(self._stopping or self._make_next_decoder or self._scheduler.waiting or self._scheduler.running)

    def _schedule(self) -> StepPlan | None:
        """Wait for work, end cancelled and expired requests, and plan a step. Return None when the engine stops."""
        with self._wake:
            if not self._has_work():
                release_cores()
                self._wake.wait_for(self._has_work)
            make, self._make_next_decoder = self._make_next_decoder, None
        if make and not self._stopping:
            self._replace_decoder(make)
            return self._schedule()
        with self._wake:
            now = time.monotonic()
            cancelled, self._cancelled = self._cancelled, []
            outputs = self._abort_all(self._scheduler.generations() if self._stopping else cancelled)
            outputs += self._abort_all(self._scheduler.expired(now), FinishReason.ERROR, TIMED_OUT, TIMEOUT_CODE)
            plan = None if self._stopping else self._scheduler.schedule(now)
        if outputs:
            self._emit(outputs)
        return plan

    def _share_cores(self) -> None:
        """Set the number of threads of the next step: fewer while other models are busy."""
        if self._decoder.threads:
            threads = take_cores(self._decoder.threads)
            if threads != torch.get_num_threads():
                torch.set_num_threads(threads)

    def _step(self, plan: StepPlan) -> Iterable[GenerationOutput]:
        self._share_cores()
        for sequence, slot in plan.preempted:
            if not isinstance(sequence.output_processor, AnswerProcessor):
                self._preempted[sequence] = self._sampler.preempt(slot)
        for sequence in plan.admitted:
            self._admit(sequence)
        for copy in plan.copies:
            self._decoder.copy(copy.source, copy.target, copy.length)
        for slot, start in plan.cleared:
            self._decoder.clear(slot, start)
        sequences, spans = build_spans(plan)
        if not spans:  # all requests have just ended
            return
        logits = self._decoder.run(spans)
        record_computed(plan)
        logits = collect_prompt_logprobs(plan, logits, self._input_processor.describe)
        if any(isinstance(one.output_processor, AnswerProcessor) for one in sequences):
            sequences, logits = self._record_answers(sequences, logits)
        if sequences:
            self._scheduler.counts.generated_tokens += len(sequences)
            sampled = self._sampler.sample(logits, [sequence.slot for sequence in sequences])
            yield from filter(None, map(self._process_token, sequences, sampled))

    def _record_answers(self, sequences: list[Sequence], logits: torch.Tensor) -> tuple[list[Sequence], torch.Tensor]:
        """Score the answers that these sequences have computed. Return the other sequences, with their rows."""
        others = []
        for row, sequence in enumerate(sequences):
            if isinstance(sequence.output_processor, AnswerProcessor):
                self._record_answer(sequence, sequence.output_processor, logits[row])
            else:
                others.append(row)
        return [sequences[row] for row in others], logits[others]

    def _record_answer(self, sequence: Sequence, processor: AnswerProcessor, logits: torch.Tensor) -> None:
        """Record the answers at a sequence's node. Continue the sequence at the next node, or end it."""
        scoring, node, generation = processor.scoring, processor.node, sequence.generation
        chosen = logits[node.tokens]
        if scoring.cancelled.is_set():
            scoring.fail(InferenceFailed("The request was cancelled."))
        elif not bool(chosen.isfinite().all()):
            self._decoder.clear(sequence.slot)
            sequence.computed = 0  # keeps the slot's values out of the prefix cache
            scoring.fail(InferenceFailed(NOT_FINITE))
        else:
            scoring.record(node, chosen.log_softmax(-1).tolist())
            if following := scoring.next_node():
                ids = [*scoring.context, *following.ids]
                sequence.computed = common_prefix(ids, sequence.ids, min(len(ids) - 1, len(sequence.ids)))
                sequence.ids[:] = ids
                processor.node = following
                return
        with self._wake:
            self._scheduler.finish(sequence, time.monotonic(), completed=scoring.error is None)
        if not generation.choices:
            scoring.finish(generation.cached_tokens)

    def _admit(self, sequence: Sequence) -> None:
        if isinstance(sequence.output_processor, AnswerProcessor):
            return
        if preempted := self._preempted.pop(sequence, None):
            self._sampler.resume(sequence.slot, preempted)
        else:
            self._sampler.admit(sequence.slot, sequence.sampling, sequence.generation.prompt_ids, sequence.constraint)

    def _process_token(self, sequence: Sequence, sampled: SampledToken) -> GenerationOutput | None:
        """Return the output of a sampled token, or None while outputs are coalesced. End the choice if it is over."""
        generation, processor = sequence.generation, sequence.output_processor
        assert not isinstance(processor, AnswerProcessor)
        if generation.echo is not None and not processor.tokens:
            processor.set_echo(generation.echo, tuple(generation.prompt_logprobs))
        if not sampled.finite:
            self._decoder.clear(sequence.slot)
            sequence.computed = 0  # keeps the slot's values out of the prefix cache
            return self._end(sequence, processor.abort(FinishReason.ERROR, NOT_FINITE))
        if sampled.failure:
            return self._end(sequence, processor.abort(FinishReason.ERROR, CONSTRAINT_FAILED.format(sampled.failure)))
        if generation.prompt_only:
            return self._end(sequence, processor.finish_prompt())
        output = processor.process(sampled)
        sequence.ids.append(sampled.token)
        generation.completion_tokens += 1
        if output is None or output.finish_reason is None:
            return output
        return self._end(sequence, output)

    def _end(self, sequence: Sequence, output: GenerationOutput) -> GenerationOutput:
        """Free the slot of a choice. Return its last output, with usage if it is the request's last."""
        generation = sequence.generation
        if not isinstance(sequence.output_processor, AnswerProcessor):
            generation.reasoning_tokens += sequence.output_processor.reasoning_tokens
            if sequence.slot >= 0:
                self._sampler.release(sequence.slot)
        self._preempted.pop(sequence, None)
        completed, now = output.finish_reason not in (FinishReason.CANCELLED, FinishReason.ERROR), time.monotonic()
        with self._wake:
            self._scheduler.finish(sequence, now, completed=completed)
        return output if generation.choices else msgspec.structs.replace(output, usage=generation.usage(now))

    def _abort_all(
        self,
        generations: list[Generation],
        reason: FinishReason = FinishReason.CANCELLED,
        error: str | None = None,
        error_code: str | None = None,
    ) -> list[GenerationOutput]:
        return [
            self._end(sequence, sequence.output_processor.abort(reason, error, error_code))
            for generation in generations
            for sequence in list(generation.choices)
        ]

    def _fail_running(self) -> list[GenerationOutput]:
        """End the running requests with an error, and drop what the failed step may have left in the cache."""
        self._decoder.clear()
        with self._wake:
            failed = [one for one in self._scheduler.generations() if any(map(self._was_running, one.choices))]
            outputs = self._abort_all(failed, FinishReason.ERROR, STEP_FAILED)
            self._scheduler.invalidate_prefixes()
        if traced := [one.traceparent for one in failed if one.traceparent]:
            logger.error("engine.requests_failed traceparents=%s", ",".join(traced))
        return outputs

    def _was_running(self, sequence: Sequence) -> bool:
        """Return whether a sequence was in the failed step. One that it preempted may lack its sampling state."""
        return sequence.slot >= 0 or (sequence.output_processor.tokens > 0 and sequence not in self._preempted)
