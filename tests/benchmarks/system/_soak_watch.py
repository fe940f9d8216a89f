"""What processes and the database hold while a soak runs, and what becomes of it over time."""

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import psutil
import psycopg

from tests.benchmarks.system._machines import Part

EVERY_S = 5.0
MIB = 1024 * 1024
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


@dataclass(frozen=True)
class Sample:
    """Of a process with all its children. `own_bytes` of memory: without files and what is shared, as the database's
    buffers are."""

    at: float
    pid: int
    own_bytes: int
    threads: int
    files: int


@dataclass
class Life:
    """Of one process, from its start to its end."""

    samples: list[Sample] = field(default_factory=list)

    @property
    def minutes(self) -> float:
        return (self.samples[-1].at - self.samples[0].at) / 60

    def warm(self, after_s: float) -> list[Sample]:
        return [sample for sample in self.samples if sample.at - self.samples[0].at >= after_s]


class Watch:
    """Looks every few seconds until the block ends."""

    def __init__(self, parts: Mapping[str, Part], database_url: str, model_process: Callable[[], int]) -> None:
        self._parts, self._database_url, self._model_process = parts, database_url, model_process
        self.lives: dict[str, list[Life]] = {}
        self.connections: list[int] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(EVERY_S):
            for name, pid in self._pids():
                try:
                    self._note(name, sample_of(pid))
                except psutil.Error:
                    continue
            try:
                with psycopg.connect(self._database_url, connect_timeout=2) as connection:
                    row = connection.execute(CONNECTIONS).fetchone()
                    self.connections.append(row[0] if row else 0)
            except psycopg.Error:
                continue

    def _pids(self) -> Iterator[tuple[str, int]]:
        for name, part in self._parts.items():
            if part.process is not None and part.process.poll() is None:
                yield name, part.process.pid
        if pid := self._model_process():
            yield "a model's process", pid

    def _note(self, name: str, sample: Sample) -> None:
        lives = self.lives.setdefault(name, [])
        if not lives or lives[-1].samples[-1].pid != sample.pid:
            lives.append(Life())
        lives[-1].samples.append(sample)


def sample_of(pid: int) -> Sample:
    root = psutil.Process(pid)
    family = [root, *root.children(recursive=True)]
    own_bytes = threads = files = 0
    for process in family:
        with process.oneshot():
            memory = process.memory_info()
            own_bytes += memory.rss - memory.shared
            threads += process.num_threads()
        files += process.num_fds()
    return Sample(time.monotonic(), pid, own_bytes, threads, files)


def slope(samples: list[Sample]) -> float:
    """MiB in ten minutes, by the line that fits best."""
    times, sizes = [sample.at for sample in samples], [sample.own_bytes / MIB for sample in samples]
    return statistics.linear_regression(times, sizes).slope * 600
