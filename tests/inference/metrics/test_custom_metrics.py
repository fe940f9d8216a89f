"""Custom metrics: validation, and concurrent writes by threads and processes."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from inference.engine import InvalidRequest
from inference.metrics.custom_metrics import MAX_LABELS_BYTES, MAX_SERIES, record_value, render_metrics
from inference.protocol.native.metrics import MetricType
from tests.shared.observability.scraped import Scrape

ADDING = """
import sys
from pathlib import Path
from inference.metrics.custom_metrics import record_value
for number in range(50):
    record_value(Path(sys.argv[1]), name="cups_total", kind="counter", value=1, labels={"room": str(number % 5)})
"""


def send(folder: Path, name: str = "cups", value: float = 1, kind: MetricType = "gauge", **labels: Any) -> float:
    return record_value(folder, name=name, kind=kind, value=value, labels=labels)


def told(folder: Path) -> Scrape:
    return Scrape(render_metrics(folder).decode())


def refused(
    folder: Path, field: str, name: str = "cups", value: float = 1, kind: MetricType = "gauge", **labels: str
) -> None:
    before = render_metrics(folder)
    with pytest.raises(InvalidRequest) as caught:
        send(folder, name, value, kind, **labels)
    assert caught.value.details["field"] == field
    assert render_metrics(folder) == before


def test_a_gauge_is_set_a_counter_adds_and_a_histogram_observes(tmp_path: Path) -> None:
    assert [send(tmp_path, "level", value) for value in (3, -2.5)] == [3, -2.5]
    assert [send(tmp_path, "made", value, "counter") for value in (1, 0, 2.5)] == [1, 1, 3.5]
    assert [send(tmp_path, "size", value, "histogram", kind_="x") for value in (0.01, 2, 900)] == [0.01, 2, 900]
    scrape = told(tmp_path)
    assert scrape.types == {"level": "gauge", "made": "counter", "size": "histogram"}
    assert scrape.value("level") == -2.5
    assert "\nmade 3.5\n" in scrape.text
    assert scrape.value("size_bucket", kind_="x", le="0.01") == 1
    assert scrape.value("size_bucket", kind_="x", le="2.5") == 2
    assert scrape.value("size_bucket", kind_="x", le="+Inf") == 3
    assert (scrape.value("size_count", kind_="x"), scrape.value("size_sum", kind_="x")) == (3, 902.01)


def test_labels_in_any_order_are_one_series_and_come_back_as_they_were_sent(tmp_path: Path) -> None:
    send(tmp_path, "cups_total", 1, "counter", a='"\\', b="ü, x=1}")
    send(tmp_path, "cups_total", 1, "counter", b="ü, x=1}", a='"\\')
    assert told(tmp_path).series == {("cups_total", (("a", '"\\'), ("b", "ü, x=1}"))): 2.0}


@pytest.mark.parametrize("name", ["", "1up", "with-hyphen", "a b", "a\n", "ü", "x" * 101, "stoa_cups", "a{b}"])
def test_an_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    refused(tmp_path, "name", name)


@pytest.mark.parametrize("label", ["", "1", "a-b", "__name__", "le", "quantile", "ü", "a\n"])
def test_an_invalid_label_is_refused(tmp_path: Path, label: str) -> None:
    labels: dict[str, Any] = {label: "x"}
    refused(tmp_path, "labels", **labels)


@pytest.mark.parametrize("value", ["line\nfeed", "\x00", "\ud800", "\u202e", "x" * MAX_LABELS_BYTES])
def test_an_invalid_label_value_is_refused(tmp_path: Path, value: str) -> None:
    refused(tmp_path, "labels", room=value)


def test_another_type_is_refused(tmp_path: Path) -> None:
    send(tmp_path)
    refused(tmp_path, "type", kind="counter")
    refused(tmp_path, "type", kind="histogram")


def test_a_name_that_is_a_line_of_a_histogram_is_refused(tmp_path: Path) -> None:
    send(tmp_path, "size", kind="histogram")
    for suffix in ("bucket", "count", "sum"):
        refused(tmp_path, "name", f"size_{suffix}")
    send(tmp_path, "length_count")
    refused(tmp_path, "name", "length", kind="histogram")


def test_a_counter_never_decreases_or_overflows(tmp_path: Path) -> None:
    refused(tmp_path, "value", value=-1, kind="counter")
    send(tmp_path, value=1.7e308, kind="counter")
    refused(tmp_path, "value", value=1.7e308, kind="counter")


def test_o1_at_most_a_hundred_names(tmp_path: Path) -> None:
    for number in range(100):
        send(tmp_path, f"cups_{number}")
    refused(tmp_path, "name", "cups_100")
    assert send(tmp_path, "cups_99", 5) == 5


def test_o1_at_most_ten_labels(tmp_path: Path) -> None:
    labels: dict[str, Any] = {f"l{number}": "x" for number in range(11)}
    refused(tmp_path, "labels", **labels)
    labels.pop("l10")
    assert send(tmp_path, **labels) == 1


def test_o1_at_most_a_thousand_series_of_which_a_histogram_has_many(tmp_path: Path) -> None:
    for number in range(58):
        send(tmp_path, "size", kind="histogram", n=str(number))
    for number in range(14):
        send(tmp_path, n=str(number))
    refused(tmp_path, "labels", n="14")
    refused(tmp_path, "labels", "size", kind="histogram", n="58")
    assert send(tmp_path, value=9, n="13") == 9
    assert len(told(tmp_path).series) == MAX_SERIES


def test_nothing_is_lost_between_threads_and_processes(tmp_path: Path) -> None:
    adding = [subprocess.Popen([sys.executable, "-c", ADDING, str(tmp_path)]) for _ in range(2)]
    with ThreadPoolExecutor(8) as pool:
        for number in range(200):
            pool.submit(send, tmp_path, "cups_total", 1, "counter", room=str(number % 5))
    assert [process.wait(120) for process in adding] == [0, 0]
    assert set(told(tmp_path).named("cups_total").values()) == {60.0}


def test_a_corrupt_file_is_replaced(tmp_path: Path) -> None:
    send(tmp_path)
    (tmp_path / "custom.json").write_bytes(b'{"cups": ')
    assert render_metrics(tmp_path) == b""
    assert send(tmp_path, "made", 2, "counter") == 2
