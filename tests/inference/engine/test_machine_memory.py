"""The memory that is available on a machine, and the lock of its model hosts."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inference.engine.machine_memory import LoadLock, MachineMemory, read_memory

MEMINFO = "MemTotal:  1000 kB\nMemFree:  100 kB\nMemAvailable:  600 kB\nSwapTotal:  {} kB\nSwapFree:  {} kB\n"
KB = 1024


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n")


def cgroup(folder: str, limit: str, usage: int, cache: int = 0) -> dict[str, str]:
    """Return the files of a cgroup of version 2."""
    return {
        f"sys/fs/cgroup/{folder}memory.max": limit,
        f"sys/fs/cgroup/{folder}memory.current": str(usage),
        f"sys/fs/cgroup/{folder}memory.stat": f"anon 1\nactive_file {cache}\ninactive_file {cache}\n",
    }


VERSION_1 = {
    "sys/fs/cgroup/memory/a/memory.limit_in_bytes": str(300 * KB),
    "sys/fs/cgroup/memory/a/memory.usage_in_bytes": str(250 * KB),
    "sys/fs/cgroup/memory/a/memory.stat": f"active_file 1\ntotal_active_file {10 * KB}\ntotal_inactive_file {20 * KB}",
}
UNLIMITED = VERSION_1 | {"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712"}


@pytest.mark.parametrize(
    ("own", "files", "total", "available"),
    [
        ("0::/", {}, 1000, 600),
        ("0::/a", cgroup("a/", "max", 1), 1000, 600),
        ("0::/a", cgroup("a/", str(300 * KB), 250 * KB), 300, 50),
        ("0::/a", cgroup("a/", str(300 * KB), 250 * KB, 20 * KB), 300, 90),
        ("0::/a", cgroup("a/", str(300 * KB), 301 * KB), 300, 0),
        ("0::/a", cgroup("a/", str(2000 * KB), 10 * KB), 1000, 600),
        ("0::/a/b", cgroup("a/", str(300 * KB), 280 * KB) | cgroup("a/b/", str(200 * KB), 50 * KB), 200, 20),
        ("0::/of/the/host", cgroup("", str(300 * KB), 250 * KB), 300, 50),
        ("4:memory:/a\n0::/", VERSION_1, 300, 80),
        ("4:cpu:/a\n0::/", VERSION_1, 1000, 600),
        ("4:memory:/a\n0::/", UNLIMITED, 1000, 600),
        ("4:memory:/of/the/host", {name.replace("/a/", "/"): text for name, text in VERSION_1.items()}, 300, 80),
    ],
)
def test_the_least_of_the_machine_and_of_the_limits_of_its_cgroups_is_available(
    own: str, files: dict[str, str], total: int, available: int, tmp_path: Path
) -> None:
    write(tmp_path, {"proc/meminfo": MEMINFO.format(0, 0), "proc/self/cgroup": own} | files)
    assert read_memory(tmp_path) == MachineMemory(total * KB, available * KB)


@pytest.mark.parametrize(
    ("swap_limit", "total", "available"), [("max", 300 + 400, 50 + 100), (str(130 * KB), 430, 80), ("0", 300, 50)]
)
def test_free_swap_is_available(swap_limit: str, total: int, available: int, tmp_path: Path) -> None:
    files = cgroup("a/", str(300 * KB), 250 * KB)
    swap = {"sys/fs/cgroup/a/memory.swap.max": swap_limit, "sys/fs/cgroup/a/memory.swap.current": str(100 * KB)}
    write(tmp_path, {"proc/meminfo": MEMINFO.format(400, 100), "proc/self/cgroup": "0::/"})
    assert read_memory(tmp_path) == MachineMemory(1400 * KB, 700 * KB)
    write(tmp_path, {"proc/self/cgroup": "0::/a"} | files | swap)
    assert read_memory(tmp_path) == MachineMemory(total * KB, available * KB)


def test_without_proc_nothing_is_known(tmp_path: Path) -> None:
    assert read_memory(tmp_path) is None
    write(tmp_path, {"proc/meminfo": "MemTotal: 7 kB"})  # before Linux 3.14
    assert read_memory(tmp_path) is None


def test_this_machine_has_memory() -> None:
    memory = read_memory()
    assert memory is not None
    assert 2**26 < memory.available <= memory.total


def test_one_process_has_the_lock_until_it_releases_it_or_is_killed(tmp_path: Path) -> None:
    (tmp_path / "dev" / "shm").mkdir(parents=True)
    first, second = LoadLock(tmp_path), LoadLock(tmp_path)
    assert first.try_acquire()
    assert first.try_acquire()
    assert not second.try_acquire()
    first.release()
    assert second.try_acquire()
    second.release()
    program = f"""
import time
from pathlib import Path
from inference.engine.machine_memory import LoadLock
lock = LoadLock(Path({str(tmp_path)!r}))
print(lock.try_acquire(), flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert not first.try_acquire()
        process.send_signal(signal.SIGKILL)
    assert first.try_acquire()
    folder = tmp_path / "dev" / "shm" / f"stoa-{os.getuid()}"
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "load.lock")] == [0o700, 0o600]


def test_a_folder_of_others_is_not_followed_and_loads_go_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shared, theirs = tmp_path / "dev" / "shm", tmp_path / "theirs"
    shared.mkdir(parents=True)
    theirs.mkdir(mode=0o700)
    folder = shared / f"stoa-{os.getuid()}"
    folder.symlink_to(theirs)
    lock = LoadLock(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert [lock.try_acquire() for _ in range(3)] == [True] * 3
    assert [record.message.split()[0] for record in caplog.records] == ["engine.load_lock_unusable"]
    assert list(theirs.iterdir()) == []
    folder.unlink()
    folder.mkdir()
    folder.chmod(0o777)
    assert LoadLock(tmp_path).try_acquire()
    assert list(folder.iterdir()) == []
    folder.chmod(0o700)
    (folder / "load.lock").symlink_to(theirs / "file")
    assert LoadLock(tmp_path).try_acquire()
    assert list(theirs.iterdir()) == []
