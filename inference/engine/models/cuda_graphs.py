"""Decode steps of fixed shapes, recorded when a model is loaded and then replayed: on a GPU the launches of a small
step take longer than its work, and a graph is one launch."""

import logging
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

WARM_UPS = 3
LEAST_KEYS = 64
# A recorded layer copies the keys and values that it looks at. With more bytes of them than that, which was reckoned
# and not measured, copying takes longer than launching.
MOST_COPIED = 2**26

# Rows [rows, hidden], their slots [rows] and positions [rows], and how many places are looked at; to logits.
Compute = Callable[[Tensor, Tensor, Tensor, int], Tensor]
# Runs a step, and answers what runs it again on the numbers that its inputs hold then.
Record = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]


class Replays:
    """`compute` on `device`, for powers of two of rows and places, as far as it is worth recording; nothing where it
    cannot be recorded. Recording leaves numbers in the first place of the first slot. Used from one thread at a time.

    place_bytes: what one place of a slot takes in the cache of a layer.
    """

    def __init__(
        self,
        compute: Compute,
        record: Record,
        *,
        device: torch.device,
        most_rows: int,
        context: int,
        hidden: int,
        place_bytes: int,
    ) -> None:
        self._context = context
        self._recorded: dict[tuple[int, int], tuple[tuple[Tensor, ...], Callable[[], Tensor]]] = {}
        shapes = [(size, keys) for size in _powers(1, most_rows) for keys in _lengths(context)]
        try:
            for size, keys in sorted(shapes, reverse=True):  # small ones fit where large ones were
                if size * keys * place_bytes <= MOST_COPIED:
                    rows = torch.zeros(size, hidden, device=device)
                    slots, positions = torch.zeros(2, size, dtype=torch.long, device=device)
                    step = partial(compute, rows, slots, positions, keys)
                    self._recorded[size, keys] = (rows, slots, positions), record(step)
        except RuntimeError:  # no memory for it, or an operation that cannot be recorded
            logger.exception("engine_steps_not_recorded")
            self._recorded.clear()

    def run(self, rows: Tensor, slots: list[int], positions: list[int]) -> Tensor | None:
        """Logits [rows, vocabulary], to be read before the next run; None for a step that has to run as it is.

        rows: on the CPU.
        """
        size, keys = _power(len(slots)), min(max(_power(max(positions) + 1), LEAST_KEYS), self._context)
        recorded = self._recorded.get((size, keys))
        if recorded is None:
            return None
        # More rows are the first one again: it writes the same keys and values to the same place.
        which = [*range(len(slots)), *[0] * (size - len(slots))]
        given = rows[which], torch.tensor(slots)[which], torch.tensor(positions)[which]
        inputs, replay = recorded
        for held, new in zip(inputs, given, strict=True):
            held.copy_(new)
        return replay()[: len(slots)]


def _power(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _powers(first: int, enough: int) -> Iterator[int]:
    """Of two, up to the first that is enough."""
    yield first
    while first < enough:
        first *= 2
        yield first


def _lengths(context: int) -> set[int]:
    return {min(keys, context) for keys in _powers(LEAST_KEYS, context)}


class GraphRecorder:
    """A Record: CUDA graphs of one decoder. They share their memory, since one runs at a time."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        before = torch.cuda.current_stream()
        with torch.cuda.stream(before):  # a failed recording leaves its own stream in use otherwise
            self._stream.wait_stream(before)
            with torch.cuda.stream(self._stream):  # libraries take their workspaces at the first run
                for _ in range(WARM_UPS):
                    step()
            before.wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                made = step()

        def replay() -> Tensor:
            graph.replay()
            return made

        return replay
