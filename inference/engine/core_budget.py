"""The budget of cores that the model processes of a host share, so that busy models do not wait for each other."""

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.context import BaseContext

MAX_PROCESSES = 256  # of which the budget counts the work
MAX_DEMAND = 255  # of a byte


@dataclass(frozen=True)
class CoreShare:
    """A process's share of the cores. index: of its byte in `demands`."""

    demands: "ctypes.Array[ctypes.c_ubyte]"
    index: int
    cores: int

    def take(self, threads: int) -> int:
        """Return how many of its threads this process may use for its next step. It is busy until `release`."""
        self.demands[self.index] = min(threads, MAX_DEMAND)
        return fair_threads(threads, bytes(self.demands).translate(None, b"\0"), self.cores)

    def release(self) -> None:
        """Leave the cores to the other processes while this one has no work."""
        self.demands[self.index] = 0


class CoreBudget:
    """The shares of a host's model processes, in memory that all of them map.

    Each process has a byte: the threads that it could use now, 0 while it has no work. A byte has one writer, so there
    is no lock. The host clears the byte of an ended process, and the memory ends with its last process.
    """

    def __init__(self, context: BaseContext, cores: int) -> None:
        self._cores = cores
        self._demands = context.RawArray(ctypes.c_ubyte, MAX_PROCESSES)
        self._free = set(range(MAX_PROCESSES))

    def open_share(self) -> CoreShare | None:
        """Return the share of a new process, or None for one too many, whose work is not counted."""
        return CoreShare(self._demands, self._free.pop(), self._cores) if self._free else None

    def close_share(self, share: CoreShare | None) -> None:
        """Take back the share of an ended process."""
        if share is not None:
            share.release()
            self._free.add(share.index)


def fair_threads(threads: int, demands: Iterable[int], cores: int) -> int:
    """Return how many of its threads a process may use: as many as any other, but those that others do not need.

    demands: threads of each busy process, this one's among them.
    """
    waiting = sorted(demands, reverse=True)
    while waiting:
        share = cores // len(waiting)
        if share < waiting[-1]:
            return max(1, min(threads, share))
        cores -= waiting.pop()
    return threads


_own_share: CoreShare | None = None


def join_budget(share: CoreShare | None) -> None:
    """Make this process use its share. A process that joins no budget has all its threads."""
    global _own_share
    _own_share = share


def take_cores(threads: int) -> int:
    """Return how many of its threads this process may use for its next step. It is busy until `release_cores`."""
    return _own_share.take(threads) if _own_share else threads


def release_cores() -> None:
    """Leave the cores to the other processes while this one has no work."""
    if _own_share:
        _own_share.release()
