"""Threads are chosen among physical cores."""

import os
from pathlib import Path

import pytest

from inference.engine import processors
from inference.engine.processors import physical_cores, thread_counts


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
    (tmp_path / "cpu.max").write_text(quota)
    assert physical_cores(topology(tmp_path / "cpu", siblings), tmp_path / "cpu.max") == cores


@pytest.mark.parametrize(("cores", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_all_cores_are_among_the_choices(cores: int, counts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "physical_cores", lambda: cores)
    assert thread_counts() == counts
