"""The number of processor cores that this process may use."""

import math
import os
from pathlib import Path

_TOPOLOGY = Path("/sys/devices/system/cpu")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def physical_cores(topology: Path = _TOPOLOGY, quota: Path = _QUOTA) -> int:
    """Return the number of cores: hardware threads of one core count once, and a container's quota is the limit.

    topology, quota: files of Linux. Where they are missing, every processor counts.
    """
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores = {_siblings(topology, processor) for processor in processors}
    return max(1, min(len(cores), _quota(quota)))


def thread_counts() -> list[int]:
    """Return numbers of threads to choose from: powers of two below the number of cores, and that number."""
    cores = physical_cores()
    return sorted({*(2**power for power in range(cores.bit_length()) if 2**power < cores), cores})


def _siblings(topology: Path, processor: int) -> str:
    try:
        return (topology / f"cpu{processor}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return str(processor)


def _quota(quota: Path) -> int:
    """Return the processors of the cgroup's quota, rounded up; a huge number if it has none."""
    try:
        limit, period = quota.read_text().split()
        return math.ceil(int(limit) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return 2**31
