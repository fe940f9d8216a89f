"""The scheduler: which sequences run, which wait, and what each step computes. No tensor."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from math import ceil, inf
from operator import attrgetter
from typing import NoReturn

from inference.engine.errors import EngineOverloaded, InvalidRequest
from inference.engine.model_status import QUEUE_TIME_BUCKETS_SECONDS, EngineStats
from inference.engine.scheduling.fairness import FairShare, WaitingSequences
from inference.engine.scheduling.prefix_cache import PrefixCache, SlotCopy
from inference.engine.scheduling.sequence import Generation, Sequence

# Logits of every prompt token are large, so chunks that need them are short.
MAX_ALL_LOGITS_TOKENS = 64
# A request that arrives during a step waits for its end, so prompts of batches and questions get 1/4 of a step.
BATCH_SHARE = 4
WAITING_PER_FREE = 3  # requests of a user that wait, for each place of the queue that is free; of tokens alike
MAX_REMEMBERED_RETRIES = 10_000
BY_SLOT = attrgetter("slot")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens `start` to `end` of a sequence, more than one, to compute in this step.

    all_logits: each token needs logits, for the prompt's log probabilities.
    """

    sequence: Sequence
    start: int
    end: int
    all_logits: bool = False

    @property
    def completes(self) -> bool:
        """Return whether the sequence gets its next token from this step."""
        return self.end == len(self.sequence.ids)


@dataclass(slots=True)
class StepPlan:
    """One step, in the order of execution.

    preempted: sequences that lose their slots.
    admitted: sequences that get slots.
    copies, cleared: prefixes to copy, then slots to clear from a position on.
    decodes: sequences with one token to compute, ascending by slot.
    chunks: prompt tokens to compute, at most batch_size in all.
    """

    preempted: list[tuple[Sequence, int]] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)
    copies: list[SlotCopy] = field(default_factory=list)
    cleared: list[tuple[int, int]] = field(default_factory=list)
    decodes: list[Sequence] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)


@dataclass(slots=True)
class SchedulerCounts:
    """Counters since the start, as in `EngineStats`."""

    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    preemptions: int = 0
    generated_tokens: int = 0
    queue_counts: list[int] = field(default_factory=lambda: [0] * (len(QUEUE_TIME_BUCKETS_SECONDS) + 1))
    queue_seconds: float = 0.0

    def record_start(self, generation: Generation) -> None:
        """Count a request whose first choice got a slot."""
        assert generation.started_at is not None
        waited = generation.started_at - generation.arrived_at
        self.prefix_cache_queries += len(generation.prompt_ids)
        self.prefix_cache_hits += generation.cached_tokens
        self.queue_counts[bisect_left(QUEUE_TIME_BUCKETS_SECONDS, waited)] += 1
        self.queue_seconds += waited


class Scheduler:
    """Every request of the engine, from `add` until its last `finish`. Not thread-safe: the engine has a lock."""

    def __init__(
        self, *, slots: int, batch_size: int, max_queue: int, max_queue_tokens: int, reuses_prefixes: bool = True
    ) -> None:
        """Begin with an empty queue. reuses_prefixes: a sequence may begin in a slot with a part of its prompt."""
        self._slots = slots
        self._batch_size = batch_size
        self._max_queue = max_queue
        self._max_queue_tokens = max_queue_tokens
        self._cache = PrefixCache(slots, reuses_prefixes=reuses_prefixes)
        self._fair_share = FairShare()
        self._arrivals = count()
        self._generations: dict[str, Generation] = {}
        self._waiting = WaitingSequences()
        self._running: list[Sequence] = []
        self._needs_admission = False
        self._next_deadline = inf
        self._seconds_per_sequence = 1.0
        self._measured = 0
        # When each rejected client was asked to retry.
        self._retry_times: deque[float] = deque(maxlen=MAX_REMEMBERED_RETRIES)
        self.counts = SchedulerCounts()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def cache_tokens(self) -> int:
        """Return the number of cache positions that running sequences fill."""
        return sum(sequence.computed for sequence in self._running)

    def stats(self, *, cache_capacity: int, cache_bytes: int) -> EngineStats:
        """Return the counters now. The cache's capacity in tokens, and its bytes, are the engine's."""
        counts = self.counts
        return EngineStats(
            running=self.running,
            waiting=self.waiting,
            slots=self._slots,
            cache_tokens=self.cache_tokens,
            cache_capacity=cache_capacity,
            cache_bytes=cache_bytes,
            prefix_cache_queries=counts.prefix_cache_queries,
            prefix_cache_hits=counts.prefix_cache_hits,
            preemptions=counts.preemptions,
            generated_tokens=counts.generated_tokens,
            queue_counts=tuple(counts.queue_counts),
            queue_seconds=counts.queue_seconds,
        )

    def generations(self) -> list[Generation]:
        return list(self._generations.values())

    def find(self, request_id: str) -> Generation | None:
        return self._generations.get(request_id)

    def add(self, generation: Generation) -> None:
        """Queue a request. Raise EngineOverloaded when the queue is full, or InvalidRequest for an id in use.

        InvalidRequest also if it is one of more prompts than there are places.
        """
        if generation.request_id in self._generations:
            raise InvalidRequest(f"A request with the id {generation.request_id!r} is running. Use another.")
        self._check_queue(generation)
        generation.arrival_order = next(self._arrivals)
        self._generations[generation.request_id] = generation
        self._waiting.add(generation.choices)
        self._fair_share.add_choices(generation.user, len(generation.choices))
        self._next_deadline = min(self._next_deadline, generation.deadline)
        self._needs_admission = True

    def _check_queue(self, new: Generation) -> None:
        """Raise EngineOverloaded when the queue is full, or InvalidRequest if all prompts never have places.

        Batch work does not count against interactive requests. A user has at most three times as many interactive
        requests there as are left free, so three quarters alone.
        """
        if new.places > (most_prompts := self._slots + self._max_queue):
            raise InvalidRequest(f"Send at most {most_prompts} prompts in a request: this model has no more places.")
        queued = [one for one in self._generations.values() if one.started_at is None and (new.batch or not one.batch)]
        # The next step fills free slots, and interactive requests preempt batch work.
        available = self._cache.free + sum(one.generation.batch and not new.batch for one in self._running)
        waiting = queued[available:]
        tokens = _prompt_tokens(waiting)
        following = max(0, new.places - 1)
        free, free_tokens = self._max_queue - len(waiting) - following, self._max_queue_tokens - tokens
        is_full = len(queued) + following >= available + self._max_queue
        if is_full or (waiting and len(new.prompt_ids) > free_tokens):
            too_many = f", too many for {new.places} more" if following else ""
            self._refuse(
                new, f"The queue is full: {len(queued)} requests with {tokens} prompt tokens are waiting{too_many}."
            )
        if new.batch or not new.user or not new.places:
            return
        theirs = [one for one in waiting if one.user == new.user]
        most, most_tokens = WAITING_PER_FREE * free, WAITING_PER_FREE * free_tokens
        if theirs and (len(theirs) + following > most or _prompt_tokens(theirs) > most_tokens):
            self._refuse(new, f"Of your requests {len(theirs)} are waiting, and the queue is for others too.")

    def _refuse(self, new: Generation, reason: str) -> NoReturn:
        seconds = self.retry_after(new.arrived_at)
        self._retry_times.append(new.arrived_at + seconds)
        raise EngineOverloaded(f"{reason} Try again in {seconds} s.", retry_after=seconds, reason="queue_full")

    def retry_after(self, now: float) -> int:
        """Return the seconds until a queue place is expected to be free, 1 to 120, from recent request durations.

        It counts waiting choices and rejected clients that will retry, so that retries are spread.
        """
        while self._retry_times and self._retry_times[0] <= now:
            self._retry_times.popleft()
        before = self.waiting + len(self._retry_times)
        return min(max(ceil((before + 1) * self._seconds_per_sequence / self._slots), 1), 120)

    def expired(self, now: float) -> list[Generation]:
        """Return the requests whose deadline has passed."""
        if now < self._next_deadline:
            return []
        future = [one.deadline for one in self._generations.values() if one.deadline > now]
        self._next_deadline = min(future, default=inf)
        return [one for one in self._generations.values() if one.deadline <= now]

    def admit(self, now: float) -> StepPlan:
        """Assign slots only, for an engine that plans its steps itself and computes prompts whole."""
        plan = StepPlan()
        self._assign_slots(plan, now)
        for sequence in plan.admitted:
            sequence.computed = len(sequence.ids)
            self._fair_share.add_served(sequence, len(sequence.ids))
        return plan

    def count_token(self, sequence: Sequence) -> None:
        """Count a token that such an engine has generated."""
        self.counts.generated_tokens += 1
        self._fair_share.add_served(sequence, 1)

    def schedule(self, now: float) -> StepPlan:
        """Assign slots and plan the next step."""
        plan = StepPlan()
        if self._needs_admission:
            self._assign_slots(plan, now)
        prefilling = []
        for sequence in self._running:
            if sequence.pending == 1:
                plan.decodes.append(sequence)
                self._fair_share.add_served(sequence, 1)
            else:
                prefilling.append(sequence)
        plan.decodes.sort(key=BY_SLOT)
        if prefilling:
            plan.chunks.extend(self._chunks(prefilling))
        return plan

    def _assign_slots(self, plan: StepPlan, now: float) -> None:
        """Fill free slots, then slots of preempted sequences."""
        while sequence := min(self._waiting.firsts(), key=self._fair_share.priority_key, default=None):
            if not self._cache.free:
                preemptible = [one for one in self._running if one.is_preemptible and one not in plan.admitted]
                preempted = self._fair_share.choose_preempted(preemptible, sequence)
                if preempted is None:
                    break
                plan.preempted.append((preempted, preempted.slot))
                self._preempt(preempted)
            self._admit(sequence, plan, now)
        # Choices that wait for another choice's prompt may be admitted at the next step.
        prefilling = [one.generation for one in self._running if one.generation.prefilling]
        self._needs_admission = any(choice.slot < 0 for generation in prefilling for choice in generation.choices)

    def _admit(self, sequence: Sequence, plan: StepPlan, now: float) -> None:
        generation = sequence.generation
        assignment = self._cache.assign(sequence)
        if assignment.copy:
            plan.copies.append(assignment.copy)
        if assignment.needs_clearing:
            plan.cleared.append((sequence.slot, sequence.computed))
        if generation.started_at is None:
            generation.started_at, generation.cached_tokens = now, sequence.computed
            self.counts.record_start(generation)
        if generation.needs_prompt_logprobs:
            del generation.prompt_logprobs[1:]
        if sequence.admitted_at is None:
            sequence.admitted_at = now
        self._waiting.remove(sequence)
        self._running.append(sequence)
        self._fair_share.add_slot(sequence)
        plan.admitted.append(sequence)

    def _preempt(self, sequence: Sequence) -> None:
        """Return a running sequence to the queue. It keeps its tokens and recomputes their keys and values later."""
        self.counts.preemptions += 1
        self._release_slot(sequence)
        self._waiting.add([sequence])

    def _release_slot(self, sequence: Sequence) -> None:
        self._running.remove(sequence)
        self._cache.release(sequence)
        self._fair_share.remove_slot(sequence)
        sequence.slot, sequence.computed = -1, 0

    def _chunks(self, prefilling: list[Sequence]) -> Iterable[Chunk]:
        """Yield chunks within the step's budget: prompts of other requests before batches and questions."""
        budget = self._batch_size
        for sequence in sorted(prefilling, key=lambda one: one.generation.shares_steps):
            if sequence.generation.shares_steps:
                budget = min(budget, max(self._batch_size // BATCH_SHARE, 1))
            all_logits = sequence.generation.needs_prompt_logprobs
            size = min(sequence.pending, budget, MAX_ALL_LOGITS_TOKENS if all_logits else budget)
            if size:
                budget -= size
                self._fair_share.add_served(sequence, size)
                yield Chunk(sequence, sequence.computed, sequence.computed + size, all_logits)

    def finish(self, sequence: Sequence, now: float, *, completed: bool) -> None:
        """Remove a choice, and its request with the last one. Its slot is free for the next step.

        completed: it was not cancelled and did not fail, so its duration counts for `retry_after`.
        """
        generation = sequence.generation
        generation.choices.remove(sequence)
        if sequence.slot < 0:
            self._waiting.remove(sequence)
        else:
            self._release_slot(sequence)
        if completed and sequence.admitted_at is not None:
            self._measured += 1
            weight = max(0.1, 1 / self._measured)
            self._seconds_per_sequence += weight * (now - sequence.admitted_at - self._seconds_per_sequence)
        self._fair_share.remove_choice(generation.user)
        if not generation.choices:
            del self._generations[generation.request_id]
        self._needs_admission = True

    def filled_positions(self) -> dict[int, int]:
        """Return the number of filled positions of each slot in use."""
        return {sequence.slot: sequence.computed for sequence in self._running}

    def invalidate_prefixes(self) -> None:
        """Forget all cached prefixes: after a failed step, or when other kernels computed them."""
        self._cache.invalidate()


def _prompt_tokens(generations: Iterable[Generation]) -> int:
    return sum(len(generation.prompt_ids) for generation in generations)
