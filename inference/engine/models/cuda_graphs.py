"""CUDA graphs: decode steps of fixed shapes, recorded at load and replayed.

On a GPU, launching the kernels of a small step takes longer than running them, and a graph is one launch.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

WARM_UP_RUNS = 3
# A recorded layer copies the keys and values that it reads. Above this, an estimate, the copy takes longer than
# launching.
MAX_COPIED_BYTES = 2**26

# From inputs of rows, their slots [rows] and positions [rows], and the number of keys to read, to logits.
ComputeLogits = Callable[[Tensor, Tensor, Tensor, int], Tensor]
# Runs a step and returns a function that runs it again on the current values of its inputs.
RecordStep = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]


class RecordedSteps:
    """Recorded decode steps for powers of two of rows and keys. Not thread-safe.

    Without any where recording fails. Recording changes the first position of the first slot.
    """

    def __init__(
        self,
        compute: ComputeLogits,
        record: RecordStep,
        *,
        device: torch.device,
        max_rows: int,
        context: int,
        row: Tensor,
        min_keys: int,
        position_bytes: int,
    ) -> None:
        """Record the steps.

        row: an example of one row's inputs.
        min_keys: keys of the smallest step.
        position_bytes: size of the copied keys and values of one position of a layer.
        """
        self._context, self._min_keys = context, min_keys
        self._recorded: dict[tuple[int, int], tuple[tuple[Tensor, ...], Callable[[], Tensor]]] = {}
        shapes = [(size, keys) for size in _powers(1, max_rows) for keys in _key_counts(min_keys, context)]
        try:
            for size, keys in sorted(shapes, reverse=True):  # small graphs reuse the memory of large ones
                if size * keys * position_bytes <= MAX_COPIED_BYTES:
                    rows = row.new_zeros(size, *row.shape, device=device)
                    slots, positions = torch.zeros(2, size, dtype=torch.long, device=device)
                    step = partial(compute, rows, slots, positions, keys)
                    self._recorded[size, keys] = (rows, slots, positions), record(step)
        except RuntimeError:  # no memory, or an operation that cannot be recorded
            logger.exception("engine.steps_not_recorded")
            self._recorded.clear()

    def run(self, rows: Tensor, slots: list[int], positions: list[int]) -> Tensor | None:
        """Return logits [rows, vocabulary], or None for a shape that is not recorded. The next run overwrites them.

        rows: on the CPU.
        """
        size, keys = _power(len(slots)), min(max(_power(max(positions) + 1), self._min_keys), self._context)
        recorded = self._recorded.get((size, keys))
        if recorded is None:
            return None
        # Padding rows repeat the first one, which writes the same keys and values to the same position.
        indices = [*range(len(slots)), *[0] * (size - len(slots))]
        values = rows[indices], torch.tensor(slots)[indices], torch.tensor(positions)[indices]
        inputs, replay = recorded
        for tensor, value in zip(inputs, values, strict=True):
            tensor.copy_(value)
        return replay()[: len(slots)]


def _power(minimum: int) -> int:
    return 1 << (minimum - 1).bit_length()


def _powers(first: int, maximum: int) -> Iterator[int]:
    """Yield doublings of `first`, up to the first that is at least `maximum`."""
    yield first
    while first < maximum:
        first *= 2
        yield first


def _key_counts(min_keys: int, context: int) -> set[int]:
    return {min(keys, context) for keys in _powers(min_keys, context)}


class GraphRecorder:
    """A `RecordStep` that makes the CUDA graphs of one decoder. They share memory, since one runs at a time."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        before = torch.cuda.current_stream()
        with torch.cuda.stream(before):  # a failed recording leaves its own stream in use otherwise
            self._stream.wait_stream(before)
            with torch.cuda.stream(self._stream):  # libraries allocate their workspaces at the first run
                for _ in range(WARM_UP_RUNS):
                    step()
            before.wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                output = step()

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay
