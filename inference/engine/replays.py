"""Decode steps of a few fixed shapes, each recorded once and then replayed: on a GPU the launches of a small step take
longer than its work, and a graph is one launch."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

WARM_UPS = 3
LEAST_KEYS = 64
# A recorded layer copies the keys and values that it looks at. That many bytes take about as long as its launches.
MOST_COPIED = 2**26

# Rows [rows, hidden], their slots [rows] and positions [rows], and how many places are looked at; to logits.
Compute = Callable[[Tensor, Tensor, Tensor, int], Tensor]
# Runs a step, and answers what runs it again on the numbers that its inputs hold then.
Record = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]


@dataclass(frozen=True)
class _Recorded:
    rows: Tensor
    slots: Tensor
    positions: Tensor
    replay: Callable[[], Tensor]


class Replays:
    """`compute` on `device`, as far as it is worth recording. Used from one thread.

    place_bytes: what one place of a slot takes in the cache of a layer.
    """

    def __init__(
        self, compute: Compute, record: Record, *, device: torch.device, context: int, place_bytes: int
    ) -> None:
        self._compute = compute
        self._record = record
        self._device = device
        self._context = context
        self._most_places = MOST_COPIED // place_bytes
        self._recorded: dict[tuple[int, int], _Recorded] = {}
        self._is_refused = False

    def run(self, rows: Tensor, slots: list[int], positions: list[int]) -> Tensor | None:
        """Logits [rows, vocabulary], to be read before the next run; None for a step that has to run as it is."""
        count = len(slots)
        size, keys = _power(count), min(max(_power(max(positions) + 1), LEAST_KEYS), self._context)
        if self._is_refused or size * keys > self._most_places:
            return None
        # More rows are the first one again: it writes the same keys and values to the same place.
        which = torch.tensor([*range(count), *[0] * (size - count)])
        given = rows[which.to(rows.device)], torch.tensor(slots)[which], torch.tensor(positions)[which]
        if (size, keys) not in self._recorded:
            try:
                self._recorded[size, keys] = self._make(given, keys)
            except RuntimeError:  # no memory for it, or an operation that cannot be recorded
                logger.exception("engine_steps_not_recorded")
                self._is_refused = True
                return None
        recorded = self._recorded[size, keys]
        for held, new in zip((recorded.rows, recorded.slots, recorded.positions), given, strict=True):
            held.copy_(new)
        return recorded.replay()[:count]

    def _make(self, given: tuple[Tensor, ...], keys: int) -> _Recorded:
        rows, slots, positions = (tensor.to(self._device, copy=True) for tensor in given)
        return _Recorded(rows, slots, positions, self._record(lambda: self._compute(rows, slots, positions, keys)))


def _power(least: int) -> int:
    return 1 << (least - 1).bit_length()


def record_on_gpu(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """As a CUDA graph."""
    beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):  # libraries take their workspaces at the first run, which cannot be recorded
        for _ in range(WARM_UPS):
            step()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        made = step()

    def replay() -> Tensor:
        graph.replay()
        return made

    return replay
