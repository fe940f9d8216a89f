"""Memory of processes."""

import os
from pathlib import Path

from inference.engine.supervisor import descendants

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int | None) -> int:
    """As the system counts it, what it shares with others included; 0 for a process that is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def tree_anonymous_bytes(pid: int | None) -> int:
    """Return the resident bytes of a process tree that are no file's, which the system cannot get back."""
    return sum(map(_anonymous_bytes, [pid, *(descendants(pid) if pid else [])]))


def _anonymous_bytes(pid: int | None) -> int:
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return max(0, int(resident) - int(shared)) * _PAGE_BYTES


def tree_bytes(pid: int | None) -> int:
    """Return the resident bytes of a process and of all that it has started."""
    return sum(map(resident_bytes, [pid, *(descendants(pid) if pid else [])]))
