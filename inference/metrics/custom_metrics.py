"""Metrics that clients send. All processes of this machine share one small file, until the last of them ends."""

import fcntl
import os
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from math import isfinite
from pathlib import Path

import msgspec

from inference.engine import InvalidRequest
from inference.protocol.native.metrics import MetricType

MAX_METRIC_NAMES = 100
MAX_LABELS = 10
MAX_SERIES = 1000
MAX_METRIC_NAME_LENGTH = 100
MAX_LABELS_BYTES = 512  # names and values of one series together, in bytes
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
RESERVED_PREFIX = "stoa_"

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_RESERVED_LABELS = ("le", "quantile")  # added by Prometheus
_SUFFIXES = ("_bucket", "_count", "_sum")
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\""})


class MetricSeries(msgspec.Struct):
    """Value of one series. For a histogram: the sum, with the number of observations in each bucket."""

    labels: dict[str, str]
    value: float
    counts: list[int] | None = None


class CustomMetric(msgspec.Struct):
    """A metric with its series by their rendered labels."""

    kind: MetricType
    series: dict[str, MetricSeries] = {}

    @property
    def lines_per_series(self) -> int:
        return len(BUCKETS) + 3 if self.kind == "histogram" else 1


CustomMetrics = dict[str, CustomMetric]


def record_value(folder: Path, *, name: str, kind: MetricType, value: float, labels: Mapping[str, str]) -> float:
    """Set a gauge, add to a counter, or observe a value in a histogram.

    Return the new value of the gauge or counter, or the observed value. Raise InvalidRequest; OSError for a full disk.
    """
    _check_name(name)
    _check_labels(labels)
    if kind == "counter" and value < 0:
        raise InvalidRequest("value is invalid. A counter takes 0 or more.", field="value")
    with _locked(folder):
        stored = _read(folder)
        recorded = _record(stored, name, kind, value, labels)
        _write(folder, stored)
    return recorded


def render_metrics(folder: Path) -> bytes:
    """Return all custom metrics in Prometheus' text format."""
    return "".join(line for name, custom in _read(folder).items() for line in _lines(name, custom)).encode()


def _record(stored: CustomMetrics, name: str, kind: MetricType, value: float, labels: Mapping[str, str]) -> float:
    custom = _find(stored, name, kind)
    label_text = _label_text(labels)
    if label_text not in custom.series:
        count = sum(len(one.series) * one.lines_per_series for one in stored.values())
        if count + custom.lines_per_series > MAX_SERIES:
            raise InvalidRequest(f"Custom metrics have at most {MAX_SERIES} series. Use fewer labels.", field="labels")
        counts = [0] * (len(BUCKETS) + 1) if kind == "histogram" else None
        custom.series[label_text] = MetricSeries(dict(labels), 0.0, counts)
    series = custom.series[label_text]
    if not isfinite(series.value + value):
        raise InvalidRequest("value is too large: the sum would not be finite.", field="value")
    if series.counts is not None:
        series.counts[bisect_left(BUCKETS, value)] += 1
    series.value = value if kind == "gauge" else series.value + value
    return value if kind == "histogram" else series.value


def _find(stored: CustomMetrics, name: str, kind: MetricType) -> CustomMetric:
    if name in stored:
        if stored[name].kind != kind:
            raise InvalidRequest(f"type is invalid: {name} is a {stored[name].kind}.", field="type")
        return stored[name]
    if len(stored) >= MAX_METRIC_NAMES:
        raise InvalidRequest(
            f"There are {MAX_METRIC_NAMES} custom metrics, the maximum. Use one of their names.", field="name"
        )
    used = {line for other, custom in stored.items() for line in _names(other, custom.kind)}
    if not used.isdisjoint(_names(name, kind)):
        raise InvalidRequest("name is a line of another histogram or metric. Choose another name.", field="name")
    return stored.setdefault(name, CustomMetric(kind))


def _names(name: str, kind: MetricType) -> set[str]:
    """Return the names of the metric's lines in Prometheus' text format."""
    return {name, *(name + suffix for suffix in _SUFFIXES)} if kind == "histogram" else {name}


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > MAX_METRIC_NAME_LENGTH:
        raise InvalidRequest(
            f"name is invalid. Use up to {MAX_METRIC_NAME_LENGTH} letters, digits, _ and :, not a digit first.",
            field="name",
        )
    if name.startswith(RESERVED_PREFIX):
        raise InvalidRequest(f"name is invalid: names that begin with {RESERVED_PREFIX} are reserved.", field="name")


def _check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > MAX_LABELS:
        raise InvalidRequest(f"labels has too many entries: the maximum is {MAX_LABELS}.", field="labels")
    for label, value in labels.items():
        if not _LABEL.fullmatch(label) or label in _RESERVED_LABELS:
            raise InvalidRequest(
                "labels has an invalid name. Use letters, digits and _, but no digit or two _ first, and not "
                "le or quantile.",
                field="labels",
            )
        if not value.isprintable():
            raise InvalidRequest("labels has a value with unprintable characters.", field="labels")
    if sum(len(label) + len(value.encode()) for label, value in labels.items()) > MAX_LABELS_BYTES:
        raise InvalidRequest(
            f"labels is too long: the maximum is {MAX_LABELS_BYTES} bytes of names and values together.", field="labels"
        )


def _lines(name: str, custom: CustomMetric) -> Iterator[str]:
    yield f"# TYPE {name} {custom.kind}\n"
    for label_text, series in custom.series.items():
        if series.counts is None:
            yield f"{name}{_braced(label_text)} {_number(series.value)}\n"
            continue
        bounds = [*map(str, BUCKETS), "+Inf"]
        for bound, count in zip(bounds, accumulate(series.counts), strict=True):
            with_bound = _braced(",".join(filter(None, (label_text, f'le="{bound}"'))))
            yield f"{name}_bucket{with_bound} {count}\n"
        yield f"{name}_count{_braced(label_text)} {sum(series.counts)}\n"
        yield f"{name}_sum{_braced(label_text)} {_number(series.value)}\n"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _label_text(labels: Mapping[str, str]) -> str:
    return ",".join(f'{label}="{value.translate(_ESCAPED)}"' for label, value in sorted(labels.items()))


def _braced(label_text: str) -> str:
    return f"{{{label_text}}}" if label_text else ""


def _file(folder: Path) -> Path:
    return folder / "custom.json"


def _read(folder: Path) -> CustomMetrics:
    try:
        return msgspec.json.decode(_file(folder).read_bytes(), type=CustomMetrics)
    except (FileNotFoundError, msgspec.MsgspecError):  # MsgspecError: the machine crashed during a write
        return {}


def _write(folder: Path, stored: CustomMetrics) -> None:
    new = _file(folder).with_suffix(".new")
    new.write_bytes(msgspec.json.encode(stored))
    new.replace(_file(folder))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(folder / "custom.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
