"""Threads are chosen among physical cores, and GPUs are those that the process may use."""

import os
from pathlib import Path

import pytest

from inference.engine import processors
from inference.engine.processors import gpu_devices, physical_cores, thread_counts


def topology(folder: Path, siblings: list[str]) -> Path:
    for processor, content in enumerate(siblings):
        file = folder / f"cpu{processor}" / "topology" / "thread_siblings_list"
        file.parent.mkdir(parents=True)
        file.write_text(content)
    return folder


@pytest.mark.parametrize(
    ("siblings", "quota", "cores"),
    [
        (["0", "1", "2", "3"], "max 100000", 4),
        (["0,2", "1,3", "0,2", "1,3"], "max 100000", 2),
        (["0", "1", "2", "3"], "150000 100000", 2),
        (["0", "1", "2", "3"], "1000 100000", 1),
        ([], "", 4),
    ],
)
def test_hardware_threads_count_once_and_a_quota_is_the_limit(
    siblings: list[str], quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (tmp_path / "cpu.max").write_text(quota)
    assert physical_cores(topology(tmp_path / "topology", siblings), tmp_path, tmp_path / "none") == cores


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/a/b", {"a/b/cpu.max": "150000 100000"}, 2),
        ("0::/a/b", {"a/cpu.max": "100000 100000", "a/b/cpu.max": "300000 100000"}, 1),
        ("0::/of/the/host", {"cpu.max": "300000 100000"}, 3),
        ("4:cpu,cpuacct:/a\n0::/", {"cpu/a/cpu.cfs_quota_us": "250000", "cpu/a/cpu.cfs_period_us": "100000"}, 3),
        ("4:cpu:/of/the/host", {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ("4:cpu:/a", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, 4),
        ("4:memory:/a", {"a/cpu.max": "100000 100000"}, 4),
    ],
)
def test_quotas_of_the_process_and_of_both_versions_are_limits(
    own: str, files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    (tmp_path / "own").write_text(f"{own}\n")
    assert physical_cores(tmp_path / "topology", tmp_path, tmp_path / "own") == cores


@pytest.mark.parametrize(("asked", "cores"), [("2", 2), ("3,1", 3), ("16", 4), ("0", 4), ("many", 4), ("", 4)])
def test_the_operators_number_of_threads_is_a_limit(
    asked: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert physical_cores(tmp_path, tmp_path, tmp_path / "own") == cores


@pytest.mark.parametrize(("cores", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_all_cores_are_among_the_choices(cores: int, counts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "physical_cores", lambda: cores)
    assert thread_counts() == counts


def test_gpus_are_those_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpu_devices(tmp_path / "none") == []
    for name in ("0000:01:00.0", "0000:41:00.0"):
        (tmp_path / name).mkdir()
    assert gpu_devices(tmp_path) == ["0", "1"]


@pytest.mark.parametrize(("visible", "devices"), [("", []), ("3", ["3"]), ("GPU-a, MIG-b", ["GPU-a", "MIG-b"])])
def test_the_operators_choice_of_gpus_is_kept(
    visible: str, devices: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    (tmp_path / "0000:01:00.0").mkdir()
    assert gpu_devices(tmp_path) == devices
