"""Metrics that clients send, kept for all processes of this machine in one small file until the last of them ends."""

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
_OWN_LABELS = ("le", "quantile")  # Prometheus' own
_SUFFIXES = ("_bucket", "_count", "_sum")
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\""})


class MetricSeries(msgspec.Struct):
    """One series' number; of a histogram the sum, with how many sizes there were in each bucket."""

    labels: dict[str, str]
    value: float
    counts: list[int] | None = None


class CustomMetric(msgspec.Struct):
    """One metric with its series, by the text of their labels."""

    kind: MetricType
    series: dict[str, MetricSeries] = {}

    @property
    def lines_each(self) -> int:
        return len(BUCKETS) + 3 if self.kind == "histogram" else 1


Kept = dict[str, CustomMetric]


def record_value(folder: Path, *, name: str, kind: MetricType, value: float, labels: Mapping[str, str]) -> float:
    """Set a gauge, add to a counter, observe a size. Answers the gauge's or the counter's number, or the size. Raises
    InvalidRequest; OSError when the disk is full."""
    _check_name(name)
    _check_labels(labels)
    if kind == "counter" and value < 0:
        raise InvalidRequest("value is wrong: a counter only grows.", field="value")
    with _locked(folder):
        kept = _read(folder)
        recorded = _take(kept, name, kind, value, labels)
        _write(folder, kept)
    return recorded


def render_metrics(folder: Path) -> bytes:
    """In Prometheus' text form."""
    return "".join(line for name, custom in _read(folder).items() for line in _lines(name, custom)).encode()


def _take(kept: Kept, name: str, kind: MetricType, value: float, labels: Mapping[str, str]) -> float:
    custom = _find(kept, name, kind)
    label_text = _label_text(labels)
    if label_text not in custom.series:
        count = sum(len(one.series) * one.lines_each for one in kept.values())
        if count + custom.lines_each > MAX_SERIES:
            raise InvalidRequest(f"There are {MAX_SERIES} series of custom metrics: use fewer labels.", field="labels")
        counts = [0] * (len(BUCKETS) + 1) if kind == "histogram" else None
        custom.series[label_text] = MetricSeries(dict(labels), 0.0, counts)
    series = custom.series[label_text]
    if not isfinite(series.value + value):
        raise InvalidRequest("value is wrong: with it the sum is too large a number.", field="value")
    if series.counts is not None:
        series.counts[bisect_left(BUCKETS, value)] += 1
    series.value = value if kind == "gauge" else series.value + value
    return value if kind == "histogram" else series.value


def _find(kept: Kept, name: str, kind: MetricType) -> CustomMetric:
    if name in kept:
        if kept[name].kind != kind:
            raise InvalidRequest(f"type is wrong: {name} is a {kept[name].kind}.", field="type")
        return kept[name]
    if len(kept) >= MAX_METRIC_NAMES:
        raise InvalidRequest(f"There are {MAX_METRIC_NAMES} custom metrics: use one of them.", field="name")
    taken = {line for other, custom in kept.items() for line in _names(other, custom.kind)}
    if not taken.isdisjoint(_names(name, kind)):
        raise InvalidRequest("name is wrong: a histogram has it. Choose another.", field="name")
    return kept.setdefault(name, CustomMetric(kind))


def _names(name: str, kind: MetricType) -> set[str]:
    """Return the names of the metric's lines in Prometheus' text form."""
    return {name, *(name + suffix for suffix in _SUFFIXES)} if kind == "histogram" else {name}


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > MAX_METRIC_NAME_LENGTH:
        raise InvalidRequest(
            f"name is wrong: up to {MAX_METRIC_NAME_LENGTH} letters, digits, _ and :, not a digit first.", field="name"
        )
    if name.startswith(RESERVED_PREFIX):
        raise InvalidRequest(f"name is wrong: what begins with {RESERVED_PREFIX} is the server's own.", field="name")


def _check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > MAX_LABELS:
        raise InvalidRequest(f"labels is wrong: at most {MAX_LABELS} of them.", field="labels")
    for label, value in labels.items():
        if not _LABEL.fullmatch(label) or label in _OWN_LABELS:
            raise InvalidRequest(
                "labels is wrong: a label is of letters, digits and _, not a digit first, not two _ first, and not "
                "le or quantile.",
                field="labels",
            )
        if not value.isprintable():
            raise InvalidRequest("labels is wrong: a value has characters that cannot be printed.", field="labels")
    if sum(len(label) + len(value.encode()) for label, value in labels.items()) > MAX_LABELS_BYTES:
        raise InvalidRequest(f"labels is wrong: more than {MAX_LABELS_BYTES} bytes in all.", field="labels")


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


def _read(folder: Path) -> Kept:
    try:
        return msgspec.json.decode(_file(folder).read_bytes(), type=Kept)
    except (FileNotFoundError, msgspec.MsgspecError):  # the second where the machine went down while it was written
        return {}


def _write(folder: Path, kept: Kept) -> None:
    new = _file(folder).with_suffix(".new")
    new.write_bytes(msgspec.json.encode(kept))
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
