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


def tree_bytes(pid: int | None) -> int:
    """Return the resident bytes of a process and of all that it has started."""
    return sum(map(resident_bytes, [pid, *(descendants(pid) if pid else [])]))
