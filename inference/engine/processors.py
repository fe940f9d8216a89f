"""The processors that this process may use: cores, and GPUs."""

import contextlib
import math
import os
from pathlib import Path

_TOPOLOGY = Path("/sys/devices/system/cpu")
_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_GPUS = Path("/proc/driver/nvidia/gpus")
_UNLIMITED = 2**31


def physical_cores(topology: Path = _TOPOLOGY, cgroups: Path = _CGROUPS, own_cgroups: Path = _OWN_CGROUPS) -> int:
    """Return the number of cores: hardware threads of one core count once.

    A container's quota and the environment variable OMP_NUM_THREADS are limits.
    topology, cgroups, own_cgroups: files of Linux. Where they are missing, every processor counts.
    """
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores = {_siblings(topology, processor) for processor in processors}
    return max(1, min(len(cores), _asked_threads(), _quota(cgroups, own_cgroups)))


def thread_counts() -> list[int]:
    """Return numbers of threads to choose from: powers of two below the number of cores, and that number."""
    cores = physical_cores()
    return sorted({*(2**power for power in range(cores.bit_length()) if 2**power < cores), cores})


def gpu_devices(gpus: Path = _GPUS) -> list[str]:
    """Return the GPUs by their names in CUDA_VISIBLE_DEVICES, which also says which of them this process may use.

    gpus: folder of Nvidia's driver with a folder for each.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip()]
    try:
        return [str(number) for number, _ in enumerate(gpus.iterdir())]
    except OSError:
        return []


def cgroup_folders(controller: str, cgroups: Path = _CGROUPS, own_cgroups: Path = _OWN_CGROUPS) -> list[Path]:
    """Return the folders of this process's cgroups and of their parents, of versions 1 (of a controller) and 2."""
    lines = ["0::/", f"0:{controller}:/"]  # the roots, which are a container's own
    with contextlib.suppress(OSError):
        lines += own_cgroups.read_text().splitlines()
    folders = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = cgroups / controller if controllers else cgroups  # version 1 or 2
        folder = root / path.lstrip("/")
        folders += [each for each in (folder, *folder.parents) if each.is_relative_to(root)]
    return folders


def _siblings(topology: Path, processor: int) -> str:
    try:
        return (topology / f"cpu{processor}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return str(processor)


def _asked_threads() -> int:
    """Return OMP_NUM_THREADS, which may list a number for each level of nesting, or a huge number without it."""
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return (int(asked) if asked.isdecimal() else 0) or _UNLIMITED


def _quota(cgroups: Path, own_cgroups: Path) -> int:
    """Return the processors of the smallest quota of this process's cgroups, rounded up; a huge number without one."""
    return min(map(_folder_quota, cgroup_folders("cpu", cgroups, own_cgroups)))


def _folder_quota(folder: Path) -> int:
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            limit, period = " ".join((folder / name).read_text() for name in names).split()
            if int(limit) > 0:  # -1 is none
                return math.ceil(int(limit) / int(period))
    return _UNLIMITED
