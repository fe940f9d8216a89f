"""Metrics of several processes, each of which reads the sums of all."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared.observability import metrics_store
from shared.observability.metrics import Counter, Gauge, Histogram, render
from shared.observability.metrics_store import MetricsStore

# Process that counts as it is told on stdin, and prints what it reads.
COUNTING = """
import json, os, sys
from pathlib import Path
from shared.observability.metrics_store import MetricsStore
store = MetricsStore()
store.share(Path(sys.argv[1]))
for line in sys.stdin:
    if line.strip() == "fork" and (child := os.fork()):
        os.waitpid(child, 0)
    elif line.strip() == "fork":
        store.add(("seen", 1.0), ("live:open", 1.0))
        os._exit(0)
    else:
        for key, amount in json.loads(line).items():
            store.add((key, amount))
    print(json.dumps(dict(store.read())), flush=True)
"""


class CountingProcess:
    """A running counting process."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COUNTING, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def add(self, told: str = "{}") -> dict[str, float]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(told + "\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], CountingProcess]]:
    started: list[CountingProcess] = []

    def begin() -> CountingProcess:
        started.append(CountingProcess(tmp_path))
        started[-1].add()  # it has its file before the next process starts
        return started[-1]

    yield begin
    for one in started:
        one.kill()


def test_every_process_reads_the_sums_of_all(start: Callable[[], CountingProcess]) -> None:
    first, second = start(), start()
    first.add('{"a": 2, "live:open": 3}')
    assert second.add('{"a": 5, "b": 0.5, "live:open": 4}') == {"a": 7, "b": 0.5, "live:open": 7}
    assert first.add() == {"a": 7, "b": 0.5, "live:open": 7}


def test_a_killed_process_leaves_its_counters_but_not_its_gauges(
    start: Callable[[], CountingProcess], tmp_path: Path
) -> None:
    first, second = start(), start()
    first.add('{"a": 1}')
    second.add('{"a": 10, "live:open": 4}')
    second.kill()
    assert first.add() == {"a": 11}
    third = start()
    assert third.add('{"a": 100, "live:open": 1}') == {"a": 111, "live:open": 1}
    assert first.add() == {"a": 111, "live:open": 1}
    assert sorted(path.name for path in tmp_path.glob("*.values")) == ["0.values", "1.values"]


def test_the_first_process_starts_from_zero(start: Callable[[], CountingProcess]) -> None:
    for _ in range(2):
        alone = start()
        assert alone.add('{"a": 1}') == {"a": 1}
        alone.kill()


def test_a_forked_process_counts_for_itself(start: Callable[[], CountingProcess]) -> None:
    parent = start()
    parent.add('{"seen": 1, "live:open": 1}')
    assert parent.add("fork") == {"seen": 2, "live:open": 1}


def test_numbers_counted_before_sharing_are_shared_too(start: Callable[[], CountingProcess], tmp_path: Path) -> None:
    other, store = start(), MetricsStore()
    other.add('{"a": 1}')
    store.add(("a", 2.0))
    assert store.read() == {"a": 2}
    store.share(tmp_path)
    assert store.read() == {"a": 3}
    assert other.add() == {"a": 3}


def test_with_an_unwritable_folder_the_process_counts_for_itself(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = MetricsStore()
    store.share(tmp_path / "file" / "folder")
    store.add(("a", 1.0))
    assert store.read() == {"a": 1}


def test_a_damaged_file_of_another_process_is_skipped(start: Callable[[], CountingProcess], tmp_path: Path) -> None:
    first, second = start(), start()
    second.add('{"a": 1}')
    (tmp_path / "1.values").write_bytes(b"\xff\x00\x00\x00" + os.urandom(16))
    assert first.add('{"a": 2}') == {"a": 2}


def test_a_file_is_allocated_in_full_and_never_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_store, "FILE_BYTES", 65536)
    store = MetricsStore()
    store.share(tmp_path)
    for number in range(2000):
        store.add((f"key number {number}", 1.0))
    store.add(("key number 0", 1.0))
    told = (tmp_path / "0.values").stat()
    assert told.st_size == 65536
    assert told.st_blocks * 512 >= 65536
    assert store.read()["key number 0"] == 2
    assert 1000 < len(store.read()) < 2000


def lines(name: str) -> list[str]:
    return [line for line in render().decode().splitlines() if re.match(rf"(# \w+ )?{name}", line)]


def test_counters_gauges_and_histograms_are_rendered_as_prometheus_reads_them() -> None:
    Counter("test_cups_total", "Cups.", "kind", "size").add(2, 'a "b"\n', "large")
    Counter("test_bowls_total", "Bowls.")
    open_ = Gauge("test_open", "Open.")
    open_.add(3)
    open_.add(-1)
    seconds = Histogram("test_seconds", "Long.", "kind", buckets=(1.0, 2.5))
    seconds.observe(1.0, "x")
    seconds.observe_all([2.0, 9.0], "x")
    assert lines("test_") == [
        "# HELP test_bowls_total Bowls.",
        "# TYPE test_bowls_total counter",
        "test_bowls_total 0.0",
        "# HELP test_cups_total Cups.",
        "# TYPE test_cups_total counter",
        r'test_cups_total{kind="a \"b\"\n",size="large"} 2.0',
        "# HELP test_open Open.",
        "# TYPE test_open gauge",
        "test_open 2.0",
        "# HELP test_seconds Long.",
        "# TYPE test_seconds histogram",
        'test_seconds_bucket{kind="x",le="1.0"} 1.0',
        'test_seconds_bucket{kind="x",le="2.5"} 2.0',
        'test_seconds_bucket{kind="x",le="+Inf"} 3.0',
        'test_seconds_count{kind="x"} 3.0',
        'test_seconds_sum{kind="x"} 12.0',
    ]
