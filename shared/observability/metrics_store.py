"""Storage of metrics: in this process, or after `share` in a folder that the project's processes on one machine share.

Each process writes to a file of its own and holds its lock until it ends, however it ends. The next process takes over
an unlocked file with its counters; its gauges are discarded. So counters never decrease while any process runs, there
are no more files than processes that ran at once, and the first process starts from zero.

prometheus_client's own multiprocess mode keeps the files of every process that ever ran (those of 60 take 260 ms to
read), and on a full disk it ends the process with SIGBUS.
"""

import fcntl
import os
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import structlog
from prometheus_client.mmap_dict import MmapedDict

# Allocated in advance: a mapped file that grows on a full disk ends its process with SIGBUS.
FILE_BYTES = 2 * 1024 * 1024
LIVE = "live:"  # prefix of values that are true only while their process runs
_ENTRY_BYTES = 32  # of an entry without its key

_FILE_ERRORS = (OSError, ValueError, RuntimeError, struct.error)  # that reading a file may raise

logger = structlog.get_logger(__name__)


class MetricsStore:
    """Numbers by key. It is thread-safe, and adding never waits for a disk."""

    def __init__(self) -> None:
        self._begin()
        self._folder: Path | None = None
        os.register_at_fork(after_in_child=self._begin_in_child)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, float] = {}
        self._bytes = 0
        self._file: MetricsFile | None = None

    def _begin_in_child(self) -> None:
        """Start from zero in a forked process: the parent keeps its numbers."""
        self._begin()
        if self._folder:
            self.share(self._folder)

    def share(self, folder: Path) -> None:
        """Store the numbers in this folder from now on, with those unshared so far.

        If that fails, this process keeps its numbers to itself.
        """
        self._folder = folder
        try:
            file = MetricsFile.take(folder)
        except _FILE_ERRORS as error:
            logger.warning("metrics_not_shared", reason=type(error).__name__)
            return
        with self._lock:
            unshared, self._values, self._bytes = self._values, {}, 0
            self._file = file
            for key, value in (*file.inherited.items(), *unshared.items()):
                self._add(key, value)

    def add(self, *amounts: tuple[str, float]) -> None:
        """Add to several numbers in one step, so that readers see all or none."""
        with self._lock:
            for key, amount in amounts:
                self._add(key, amount)

    def read(self) -> Mapping[str, float]:
        """Return the sums over all processes."""
        with self._lock:
            file, sums = self._file, defaultdict(float, self._values)
        for key, value in file.others() if file else ():
            sums[key] += value
        return sums

    def _add(self, key: str, amount: float) -> None:
        value = self._values.get(key)
        if value is None:
            size = len(key.encode()) + _ENTRY_BYTES
            if self._bytes + size > FILE_BYTES:
                return  # names and labels are bounded, so only a bug reaches this
            self._bytes += size
        self._values[key] = (value or 0.0) + amount
        if self._file:
            self._file.values.write_value(key, self._values[key], 0.0)


class MetricsFile:
    """File of this process in the folder, locked until the process ends.

    `inherited` has the counters of the file's previous owners.
    """

    def __init__(self, folder: Path, number: int, lock: int) -> None:
        self._folder = folder
        self._number = number
        self._lock_descriptor = lock
        path = _values_path(folder, number)
        self.inherited = {key: value for key, value in _read(path) if not key.startswith(LIVE)}
        draft = path.with_suffix(".new")
        with draft.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, FILE_BYTES)
        self.values = MmapedDict(str(draft))
        for key, value in self.inherited.items():
            self.values.write_value(key, value, 0.0)
        draft.replace(path)

    @classmethod
    def take(cls, folder: Path) -> "MetricsFile":
        """Lock the first free file. Raise OSError if the folder is not writable or its disk is full."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _folder_locked(folder):
            _delete_unused_files(folder)
            locks = ((number, _lock(folder, number)) for number in count())
            number, lock = next((number, lock) for number, lock in locks if lock is not None)
            try:
                return cls(folder, number, lock)
            except BaseException:
                os.close(lock)
                raise

    def others(self) -> Iterator[tuple[str, float]]:
        """Yield the entries of the other files."""
        with _folder_locked(self._folder):
            for number in _numbers(self._folder):
                if number != self._number:
                    is_running = _is_held(self._folder, number)
                    values = _read(_values_path(self._folder, number))
                    yield from ((key, value) for key, value in values if is_running or not key.startswith(LIVE))


def _values_path(folder: Path, number: int) -> Path:
    return folder / f"{number}.values"


def _numbers(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.glob("*.values")]


def _read(path: Path) -> list[tuple[str, float]]:
    """Return the entries of a file; none if it is missing or a crash of the machine has damaged it."""
    with suppress(*_FILE_ERRORS):
        return [(key, value) for key, value, _, _ in MmapedDict.read_all_values_from_file(str(path))]
    return []


def _lock(folder: Path, number: int) -> int | None:
    """Return an open file that is locked until it is closed, or None if another process has it."""
    file = os.open(folder / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def _is_held(folder: Path, number: int) -> bool:
    lock = _lock(folder, number)
    if lock is not None:
        os.close(lock)
    return lock is None


def _delete_unused_files(folder: Path) -> None:
    """Delete all files of a folder that no process uses, also those of other modules."""
    if not any(_is_held(folder, number) for number in _numbers(folder)):
        for path in folder.iterdir():
            if path.suffix != ".lock":
                path.unlink()


@contextmanager
def _folder_locked(folder: Path) -> Iterator[None]:
    """Lock the folder while a process takes a file or reads which ones are locked."""
    file = os.open(folder / "places.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


store = MetricsStore()
