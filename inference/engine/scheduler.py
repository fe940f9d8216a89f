"""Who runs and who waits. First come, first served; plain Python, no tensor."""

import heapq
from collections import deque
from dataclasses import dataclass
from math import ceil

from inference.engine.detokenizer import TextStream
from inference.engine.errors import EngineOverloaded
from inference.engine.request import SamplingParams


@dataclass(eq=False, kw_only=True)
class Sequence:
    """One request on its way: `prefilled` prompt tokens are in its slot, `generated` tokens were sampled."""

    request_id: str
    prompt_ids: list[int]
    max_tokens: int
    sampling: SamplingParams
    text: TextStream
    slot: int = -1
    prefilled: int = 0
    generated: int = 0
    last_token: int = -1
    cancelled: bool = False
    admitted_at: float = 0.0

    @property
    def decoding(self) -> bool:
        """The whole prompt is in the cache, so each step adds one token."""
        return self.prefilled == len(self.prompt_ids)

    @property
    def position(self) -> int:
        """Where in the context the last sampled token stands."""
        return len(self.prompt_ids) + self.generated - 1


@dataclass(frozen=True)
class Chunk:
    """Prompt tokens `start` to `end` of a sequence, to be run in this step."""

    sequence: Sequence
    start: int
    end: int


@dataclass(frozen=True)
class Plan:
    """One step: `decodes`, ascending by slot, get one token each; `prefills` bring at most batch_size prompt tokens."""

    admitted: list[Sequence]
    decodes: list[Sequence]
    prefills: list[Chunk]


class Scheduler:
    """Knows every request of the engine from `add` until `finish`. Not thread-safe: the engine holds its lock."""

    def __init__(self, *, slots: int, batch_size: int, max_queue: int) -> None:
        self._slots = slots
        self._batch_size = batch_size
        self._max_queue = max_queue
        self._free = list(range(slots))
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._seconds_per_request = 1.0

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, sequence: Sequence) -> None:
        """Queues a request. Raises EngineOverloaded when the queue is full."""
        # Free slots count as places too: they are filled at the next step.
        if len(self._waiting) >= self._max_queue + len(self._free):
            wait = self.retry_after()
            raise EngineOverloaded(
                f"{self.waiting} requests are waiting already. Try again in {wait} s.",
                retry_after=wait,
                reason="queue_full",
            )
        self._waiting.append(sequence)

    def retry_after(self) -> int:
        """Seconds until the queue has moved on, from how long requests took lately; 1 to 120."""
        return min(max(ceil((self.waiting + 1) * self._seconds_per_request / self._slots), 1), 120)

    def find(self, request_id: str) -> Sequence | None:
        return next((sequence for sequence in self.sequences() if sequence.request_id == request_id), None)

    def sequences(self) -> list[Sequence]:
        """Everyone, running first."""
        return [*self._running, *self._waiting]

    def schedule(self, now: float) -> Plan:
        """Gives free slots to those who wait longest, then shares out the step."""
        admitted = []
        while self._free and self._waiting:
            sequence = self._waiting.popleft()
            sequence.slot = heapq.heappop(self._free)
            sequence.admitted_at = now
            self._running.append(sequence)
            admitted.append(sequence)
        decodes = [sequence for sequence in self._running if sequence.decoding]
        decodes.sort(key=lambda sequence: sequence.slot)
        return Plan(admitted, decodes, self._prefills())

    def _prefills(self) -> list[Chunk]:
        """Whole prompts in order of arrival, the last one cut where the step's budget ends."""
        chunks = []
        budget = self._batch_size
        for sequence in self._running:
            if budget and not sequence.decoding:
                end = min(sequence.prefilled + budget, len(sequence.prompt_ids))
                chunks.append(Chunk(sequence, sequence.prefilled, end))
                budget -= end - sequence.prefilled
        return chunks

    def finish(self, sequence: Sequence, now: float) -> None:
        """Forgets a request; its slot is free for the next step."""
        if sequence.slot < 0:
            self._waiting.remove(sequence)
            return
        self._running.remove(sequence)
        assert sequence.slot not in self._free
        heapq.heappush(self._free, sequence.slot)
        if not sequence.cancelled:
            self._seconds_per_request += 0.1 * (now - sequence.admitted_at - self._seconds_per_request)
