"""Where metrics are counted: in this process, and with `share` in a folder that the project's processes on this machine
have in common, so that any one of them can tell what all have counted.

Each process counts in a file of its own, which it alone writes. It holds a lock on its place for as long as it lives,
however it ends: a place that nobody holds is taken by the next process, whose counters go on from there, and what was
only true while its owner lived is not told any more. So counters never go back while one process lives, the number of
files is that of the processes that ran at once, and the first process of all begins at zero.
"""

import fcntl
import os
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog
from prometheus_client.mmap_dict import MmapedDict

# On the disk before the first is written: a file that grew on a full disk would end its process with SIGBUS.
FILE_BYTES = 2 * 1024 * 1024
MAX_PROCESSES = 1000
LIVE = "live:"  # begins the keys of what is true only while its process lives
_ENTRY_BYTES = 32  # of a value beside its key

_FILE_ERRORS = (OSError, ValueError, RuntimeError, struct.error)  # what reading a file can come to

logger = structlog.get_logger(__name__)


class MetricsStore:
    """Numbers by key. Safe to use from many threads; adding never waits for a disk."""

    def __init__(self) -> None:
        self._begin()
        self._folder: Path | None = None
        os.register_at_fork(after_in_child=self._begin_in_child)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, float] = {}
        self._bytes = 0
        self._place: MetricsFile | None = None

    def _begin_in_child(self) -> None:
        """What the parent counted is the parent's."""
        self._begin()
        if self._folder:
            self.share(self._folder)

    def share(self, folder: Path) -> None:
        """From now on count in this folder, what was counted until now included. Where that is impossible this process
        goes on alone."""
        self._folder = folder
        try:
            place = MetricsFile.take(folder)
        except _FILE_ERRORS as error:
            logger.warning("metrics_not_shared", reason=type(error).__name__)
            return
        with self._lock:
            counted, self._values, self._bytes = self._values, {}, 0
            self._place = place
            for key, value in (*place.left.items(), *counted.items()):
                self._add(key, value)

    def add(self, *amounts: tuple[str, float]) -> None:
        """All of them at once for who reads."""
        with self._lock:
            for key, amount in amounts:
                self._add(key, amount)

    def read(self) -> Mapping[str, float]:
        """What all processes have counted."""
        with self._lock:
            place, sums = self._place, defaultdict(float, self._values)
        for key, value in place.others() if place else ():
            sums[key] += value
        return sums

    def _add(self, key: str, amount: float) -> None:
        value = self._values.get(key)
        if value is None:
            size = len(key.encode()) + _ENTRY_BYTES
            if self._bytes + size > FILE_BYTES:
                return  # names and labels are bounded, so that nobody gets here but by a mistake of ours
            self._bytes += size
        self._set(key, (value or 0.0) + amount)

    def _set(self, key: str, value: float) -> None:
        self._values[key] = value
        if self._place:
            self._place.values.write_value(key, value, 0.0)


class MetricsFile:
    """One of the folder's places, ours for as long as this process lives. left: what its owners before us counted."""

    def __init__(self, folder: Path, number: int, lock: int) -> None:
        self._folder = folder
        self._number = number
        self._held = lock
        path = _values_of(folder, number)
        self.left = {key: value for key, value in _read(path) if not key.startswith(LIVE)}
        new = path.with_suffix(".new")
        with new.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, FILE_BYTES)
        self.values = MmapedDict(str(new))
        for key, value in self.left.items():
            self.values.write_value(key, value, 0.0)
        new.replace(path)

    @classmethod
    def take(cls, folder: Path) -> "MetricsFile":
        """The first that nobody holds. OSError: the folder cannot be written, or its disk is full."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _folder_locked(folder):
            _forget_when_all_are_gone(folder)
            for number in range(MAX_PROCESSES):
                if (lock := _lock(folder, number)) is not None:
                    try:
                        return cls(folder, number, lock)
                    except BaseException:
                        os.close(lock)
                        raise
        raise OSError(f"More than {MAX_PROCESSES} processes count in {folder}.")

    def others(self) -> Iterator[tuple[str, float]]:
        """What the other places hold."""
        with _folder_locked(self._folder):
            for number in _numbers(self._folder):
                if number != self._number:
                    lives = _is_held(self._folder, number)
                    values = _read(_values_of(self._folder, number))
                    yield from ((key, value) for key, value in values if lives or not key.startswith(LIVE))


def _values_of(folder: Path, number: int) -> Path:
    return folder / f"{number}.values"


def _numbers(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.glob("*.values")]


def _read(path: Path) -> list[tuple[str, float]]:
    """Nothing of a file that is not there or that a crash of the machine has broken."""
    with suppress(*_FILE_ERRORS):
        return [(key, value) for key, value, _, _ in MmapedDict.read_all_values_from_file(str(path))]
    return []


def _lock(folder: Path, number: int) -> int | None:
    """An open file whose lock is held until it is closed, or None where another process has it."""
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


def _forget_when_all_are_gone(folder: Path) -> None:
    """Also what others have put beside the values."""
    if not any(_is_held(folder, number) for number in _numbers(folder)):
        for path in folder.iterdir():
            if path.suffix != ".lock":
                path.unlink()


@contextmanager
def _folder_locked(folder: Path) -> Iterator[None]:
    """One process at a time takes a place or looks who lives."""
    file = os.open(folder / "places.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


store = MetricsStore()
