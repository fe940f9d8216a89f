"""Who runs, who waits, and what a step computes. Plain Python, no tensor."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from math import ceil, inf
from operator import attrgetter

from inference.engine.errors import EngineOverloaded
from inference.engine.model_status import QUEUE_TIME_BUCKETS_SECONDS
from inference.engine.scheduling.fairness import Turns
from inference.engine.scheduling.prefix_cache import Copy, PrefixCache
from inference.engine.scheduling.sequence import Generation, Sequence

# Logits of every token of a prompt are large, so that such prompts come in small pieces.
SCORED_CHUNK = 64
# An interactive request that comes in the middle of a step waits for its end: batch prompts must not make it long.
BATCH_SHARE = 4
MOST_TOLD = 10_000
BY_SLOT = attrgetter("slot")


@dataclass(frozen=True, slots=True)
class Chunk:
    """The tokens of a sequence from `start` to `end`, more than one, to be computed in this step.

    scored: each one's logits are wanted.
    """

    sequence: Sequence
    start: int
    end: int
    scored: bool = False

    @property
    def completes(self) -> bool:
        """The sequence gets its next token from this step."""
        return self.end == len(self.sequence.ids)


@dataclass(slots=True)
class Plan:
    """One step, in this order: `parked` lose their slots, `admitted` get theirs, `copies` are made, slots are `cleared`
    from a place on; then `decodes`, ascending by slot, have one token computed each, and `chunks` at most batch_size in
    all."""

    parked: list[tuple[Sequence, int]] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    cleared: list[tuple[int, int]] = field(default_factory=list)
    decodes: list[Sequence] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)


@dataclass(slots=True)
class Counts:
    """Since the start."""

    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    preemptions: int = 0
    generated_tokens: int = 0
    queue_counts: list[int] = field(default_factory=lambda: [0] * (len(QUEUE_TIME_BUCKETS_SECONDS) + 1))
    queue_seconds: float = 0.0

    def note_start(self, generation: Generation) -> None:
        """Its first choice has a slot."""
        assert generation.started_at is not None
        waited = generation.started_at - generation.arrived_at
        self.prefix_cache_queries += len(generation.prompt_ids)
        self.prefix_cache_hits += generation.cached_tokens
        self.queue_counts[bisect_left(QUEUE_TIME_BUCKETS_SECONDS, waited)] += 1
        self.queue_seconds += waited


class Scheduler:
    """Knows every request of the engine from `add` until its last `finish`. Not thread-safe: the engine has a lock."""

    def __init__(self, *, slots: int, batch_size: int, max_queue: int, max_queue_tokens: int) -> None:
        self._slots = slots
        self._batch_size = batch_size
        self._max_queue = max_queue
        self._max_queue_tokens = max_queue_tokens
        self._cache = PrefixCache(slots)
        self._turns = Turns()
        self._order = count()
        self._generations: dict[str, Generation] = {}
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self._seats_changed = False
        self._next_deadline = inf
        self._seconds_per_sequence = 1.0
        self._measured = 0
        self._told: deque[float] = deque(maxlen=MOST_TOLD)  # until when each of the refused was told to wait
        self.counts = Counts()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def cache_tokens(self) -> int:
        """Places that running requests fill."""
        return sum(sequence.computed for sequence in self._running)

    def generations(self) -> list[Generation]:
        return list(self._generations.values())

    def find(self, request_id: str) -> Generation | None:
        return self._generations.get(request_id)

    def add(self, generation: Generation) -> None:
        """Queues a request. Raises EngineOverloaded when the queue is full."""
        self._refuse_over_full(generation)
        generation.order = next(self._order)
        self._generations[generation.request_id] = generation
        self._waiting += generation.choices
        self._turns.come(generation.user, len(generation.choices))
        self._next_deadline = min(self._next_deadline, generation.deadline)
        self._seats_changed = True

    def _refuse_over_full(self, new: Generation) -> None:
        """Free slots count as places too: they are filled at the next step. Batch work is in no interactive's way."""
        queued = [one for one in self._generations.values() if one.started_at is None and (new.batch or not one.batch)]
        room = self._cache.free + sum(one.generation.batch and not new.batch for one in self._running)
        behind = queued[room:]
        tokens = sum(len(one.prompt_ids) for one in behind)
        too_many = len(queued) >= room + self._max_queue
        if too_many or (behind and tokens + len(new.prompt_ids) > self._max_queue_tokens):
            wait = self.retry_after(new.arrived_at)
            self._told.append(new.arrived_at + wait)
            what = f"{len(queued)} requests with {tokens} prompt tokens are waiting already."
            raise EngineOverloaded(f"{what} Try again in {wait} s.", retry_after=wait, reason="queue_full")

    def retry_after(self, now: float) -> int:
        """Seconds until there is room behind those who wait and those who were told to come back, from how long
        requests took lately; 1 to 120. Were all told the same, all but a few would come in vain again."""
        while self._told and self._told[0] <= now:
            self._told.popleft()
        before = self.waiting + len(self._told)
        return min(max(ceil((before + 1) * self._seconds_per_sequence / self._slots), 1), 120)

    def expired(self, now: float) -> list[Generation]:
        """Those whose deadline has passed."""
        if now < self._next_deadline:
            return []
        left = [one.deadline for one in self._generations.values() if one.deadline > now]
        self._next_deadline = min(left, default=inf)
        return [one for one in self._generations.values() if one.deadline <= now]

    def schedule(self, now: float) -> Plan:
        """Gives slots to whose turn it is, then shares out the step."""
        plan = Plan()
        if self._seats_changed:
            self._seat(plan, now)
        prefilling = []
        for sequence in self._running:
            if sequence.pending == 1:
                plan.decodes.append(sequence)
                self._turns.serve(sequence, 1)
            else:
                prefilling.append(sequence)
        plan.decodes.sort(key=BY_SLOT)
        if prefilling:
            plan.chunks.extend(self._chunks(prefilling))
        return plan

    def _seat(self, plan: Plan, now: float) -> None:
        """Fills free slots, and those that somebody has to leave."""
        while waiting := [one for one in self._waiting if not one.generation.prefilling]:
            sequence = min(waiting, key=self._turns.turn)
            if not self._cache.free:
                settled = [one for one in self._running if one not in plan.admitted]
                leaving = self._turns.makes_room(settled, sequence)
                if leaving is None:
                    break
                plan.parked.append((leaving, leaving.slot))
                self._park(leaving)
            self._admit(sequence, plan, now)
        # Choices that wait for another's prompt are looked at again at the next step.
        self._seats_changed = any(one.generation.prefilling for one in self._waiting)

    def _admit(self, sequence: Sequence, plan: Plan, now: float) -> None:
        generation = sequence.generation
        seat = self._cache.take(sequence)
        if seat.copy:
            plan.copies.append(seat.copy)
        if seat.clears:
            plan.cleared.append((sequence.slot, sequence.computed))
        if generation.started_at is None:
            generation.started_at, generation.cached_tokens = now, sequence.computed
            self.counts.note_start(generation)
        if generation.needs_scores:
            del generation.prompt_logprobs[1:]
        if sequence.admitted_at is None:
            sequence.admitted_at = now
        self._waiting.remove(sequence)
        self._running.append(sequence)
        self._turns.take_slot(sequence)
        plan.admitted.append(sequence)

    def _park(self, sequence: Sequence) -> None:
        """Back to those who wait; it keeps what it wrote, and computes it again when its turn comes."""
        self.counts.preemptions += 1
        self._leave_slot(sequence)
        self._waiting.append(sequence)

    def _leave_slot(self, sequence: Sequence) -> None:
        self._running.remove(sequence)
        self._cache.leave(sequence)
        self._turns.give_slot(sequence)
        sequence.slot, sequence.computed = -1, 0

    def _chunks(self, prefilling: list[Sequence]) -> Iterable[Chunk]:
        """In order of admission, interactive prompts first, the last one cut where the step's budget ends."""
        budget = self._batch_size
        for sequence in sorted(prefilling, key=lambda one: one.generation.batch):
            if sequence.generation.batch:
                budget = min(budget, max(self._batch_size // BATCH_SHARE, 1))
            scored = sequence.generation.needs_scores
            size = min(sequence.pending, budget, SCORED_CHUNK if scored else budget)
            if size:
                budget -= size
                self._turns.serve(sequence, size)
                yield Chunk(sequence, sequence.computed, sequence.computed + size, scored)

    def finish(self, sequence: Sequence, now: float, *, whole: bool) -> None:
        """Forgets a choice, and with the last one its request; its slot is free for the next step.

        whole: it ended by itself, so that its time tells how long requests take.
        """
        generation = sequence.generation
        generation.choices.remove(sequence)
        if sequence.slot < 0:
            self._waiting.remove(sequence)
        else:
            self._leave_slot(sequence)
        if whole and sequence.admitted_at is not None:
            self._measured += 1
            share = max(0.1, 1 / self._measured)
            self._seconds_per_sequence += share * (now - sequence.admitted_at - self._seconds_per_sequence)
        self._turns.leave(generation.user)
        if not generation.choices:
            del self._generations[generation.request_id]
        self._seats_changed = True

    def held(self) -> dict[int, int]:
        """How many places are filled of each slot that somebody is in."""
        return {sequence.slot: sequence.computed for sequence in self._running}

    def forget_slots(self) -> None:
        """Nobody who comes takes over what slots hold now: after a failed step, or from other kernels."""
        self._cache.forget()
