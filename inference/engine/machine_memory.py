"""Memory of this machine that is available to models, and the lock of loads that take much of it."""

import contextlib
import fcntl
import logging
import os
import stat
import tempfile
from pathlib import Path

import msgspec

from inference.engine.processors import cgroup_folders

logger = logging.getLogger(__name__)

LOCK_FILE = "load.lock"
# Names of a cgroup's files in versions 2 and 1: limit, use, and the prefix of its page cache in memory.stat.
_CGROUP_FILES = (
    ("memory.max", "memory.current", ""),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
)


class MachineMemory(msgspec.Struct, frozen=True):
    """Bytes that this process may use before the kernel ends a process: all, and those that are available now.

    The page cache is available, because the kernel frees it. So is free swap.
    """

    total: int
    available: int


def read_memory(root: Path = Path("/")) -> MachineMemory | None:
    """Return the memory of the machine, or of the cgroup of this process that has the least available.

    None without /proc/meminfo. root: folder of /proc and /sys.
    """
    try:
        fields = _read_fields(root / "proc" / "meminfo", unit=1024)
        swap = MachineMemory(fields.get("SwapTotal", 0), fields.get("SwapFree", 0))
        machine = MachineMemory(fields["MemTotal"] + swap.total, fields["MemAvailable"] + swap.available)
    except (OSError, ValueError, KeyError):
        return None
    folders = cgroup_folders("memory", root / "sys" / "fs" / "cgroup", root / "proc" / "self" / "cgroup")
    limits = [machine, *(limit for folder in folders if (limit := _cgroup_memory(folder, swap)))]
    return MachineMemory(min(limit.total for limit in limits), min(limit.available for limit in limits))


def _cgroup_memory(folder: Path, swap: MachineMemory) -> MachineMemory | None:
    """Return the memory of a cgroup, or None if it has no limit. swap: of the machine.

    That of version 1 counts without swap, as its limit of both is often the same.
    """
    for limit_file, usage_file, prefix in _CGROUP_FILES:
        with contextlib.suppress(OSError, ValueError, KeyError):
            limit, usage = _read_int(folder / limit_file), _read_int(folder / usage_file)
            cache = _read_fields(folder / "memory.stat")
            if prefix:
                swap = MachineMemory(0, 0)
            available = limit - usage + cache[f"{prefix}active_file"] + cache[f"{prefix}inactive_file"]
            with contextlib.suppress(OSError, ValueError):
                swap_limit = _read_int(folder / "memory.swap.max")
                swap_free = swap_limit - _read_int(folder / "memory.swap.current")
                swap = MachineMemory(min(swap.total, swap_limit), max(0, min(swap.available, swap_free)))
            return MachineMemory(limit + swap.total, max(0, available) + swap.available)
    return None


def _read_int(file: Path) -> int:
    return int(file.read_text())  # "max" is a ValueError, as there is no limit


def _read_fields(file: Path, unit: int = 1) -> dict[str, int]:
    """Return the numbers of a file with a name and a number in each line."""
    lines = [line.replace(":", " ").split() for line in file.read_text().splitlines()]
    return {words[0]: int(words[1]) * unit for words in lines if len(words) > 1}


class LoadLock:
    """The lock of this user's model hosts on this machine, for loads that take much of its memory.

    One host has it at a time, and loses it when it ends, however it does. root: folder of /dev.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        # Services with a /tmp of their own share /dev/shm.
        memory = root / "dev" / "shm"
        self._folder = (memory if memory.is_dir() else Path(tempfile.gettempdir())) / f"stoa-{os.getuid()}"
        self._file: int | None = None
        self._is_usable = True

    def try_acquire(self) -> bool:
        """Return whether this process has the lock now. True as well without a folder that only this user can write."""
        if self._file is not None:
            return True
        try:
            file = self._open()
        except OSError as error:
            if self._is_usable:  # until now: it is tried several times a second
                logger.warning("engine.load_lock_unusable folder=%s reason=%r", self._folder, str(error))
            self._is_usable = False
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True

    def release(self) -> None:
        """Let another host have the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        """Open the file in a folder of this user, and follow no link of others. Raise OSError."""
        with contextlib.suppress(FileExistsError):
            self._folder.mkdir(mode=0o700)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            status = os.fstat(folder)
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
                raise PermissionError("The folder belongs to another user, or others may enter it.")
            return os.open(LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        finally:
            os.close(folder)
