"""Samples of processes and database connections during a soak test, and their growth over time."""

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import psutil
import psycopg

from tests.benchmarks.system._machines import MachineProcess

INTERVAL_SECONDS = 5.0
MIB = 1024 * 1024
COUNT_CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


@dataclass(frozen=True)
class ResourceSample:
    """Resources of a process with its children. `own_bytes` is memory that is neither shared nor mapped from files."""

    at: float
    pid: int
    own_bytes: int
    threads: int
    files: int


@dataclass
class ProcessSamples:
    """Samples of one process, from its start to its end."""

    samples: list[ResourceSample] = field(default_factory=list)

    @property
    def minutes(self) -> float:
        return (self.samples[-1].at - self.samples[0].at) / 60

    def warm(self, after_s: float) -> list[ResourceSample]:
        return [sample for sample in self.samples if sample.at - self.samples[0].at >= after_s]


class ResourceSampler:
    """Takes a sample of every process every few seconds until the block ends."""

    def __init__(
        self, parts: Mapping[str, MachineProcess], database_url: str, model_process: Callable[[], int]
    ) -> None:
        self._parts, self._database_url, self._model_process = parts, database_url, model_process
        self.lives: dict[str, list[ProcessSamples]] = {}
        self.connections: list[int] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "ResourceSampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(INTERVAL_SECONDS):
            for name, pid in self._pids():
                try:
                    self._note(name, take_sample(pid))
                except psutil.Error:
                    continue
            try:
                with psycopg.connect(self._database_url, connect_timeout=2) as connection:
                    row = connection.execute(COUNT_CONNECTIONS).fetchone()
                    self.connections.append(row[0] if row else 0)
            except psycopg.Error:
                continue

    def _pids(self) -> Iterator[tuple[str, int]]:
        for name, part in self._parts.items():
            if part.process is not None and part.process.poll() is None:
                yield name, part.process.pid
        if pid := self._model_process():
            yield "a model's process", pid

    def _note(self, name: str, sample: ResourceSample) -> None:
        lives = self.lives.setdefault(name, [])
        if not lives or lives[-1].samples[-1].pid != sample.pid:
            lives.append(ProcessSamples())
        lives[-1].samples.append(sample)


def take_sample(pid: int) -> ResourceSample:
    root = psutil.Process(pid)
    family = [root, *root.children(recursive=True)]
    own_bytes = threads = files = 0
    for process in family:
        with process.oneshot():
            memory = process.memory_info()
            own_bytes += memory.rss - memory.shared
            threads += process.num_threads()
        files += process.num_fds()
    return ResourceSample(time.monotonic(), pid, own_bytes, threads, files)


def slope(samples: list[ResourceSample]) -> float:
    """Return the growth in MiB per ten minutes, by linear regression."""
    times, sizes = [sample.at for sample in samples], [sample.own_bytes / MIB for sample in samples]
    return statistics.linear_regression(times, sizes).slope * 600
