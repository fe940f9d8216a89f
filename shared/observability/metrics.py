"""Metrics: declared where they are counted, told in Prometheus' text form.

    ATTEMPTS = Counter("stoa_webhook_attempts_total", "Attempts at webhooks, by outcome.", "outcome")
    ATTEMPTS.add(1, "delivered")

A label's value is one of a few: never what somebody sent, or there is no end to them. How several processes
count together is said in `metrics_store`.
"""

import json
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import ClassVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from shared.observability.metrics_store import LIVE, store

OTHER = "other"  # what a label says of all that is unknown
MAX_LABEL_LENGTH = 128

# Seconds.
REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

__all__ = [
    "CONTENT_TYPE",
    "Counter",
    "Gauge",
    "GaugeMetricFamily",
    "Histogram",
    "metric_names",
    "render",
    "use_shared_folder",
]

Values = list[tuple[tuple[str, ...], float]]


class _DeclaredMetric(ABC):
    """A metric with its name as Prometheus has it. Its help is one sentence."""

    all: ClassVar[dict[str, "_DeclaredMetric"]] = {}
    prefix: ClassVar[str] = ""

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self._keys: dict[tuple[str, ...], str] = {}
        self.all[name] = self

    @abstractmethod
    def family(self, values: Values) -> Metric:
        """All its numbers, as they are told."""

    def key(self, *values: str) -> str:
        """Under which its number with these labels is kept."""
        if values not in self._keys:
            cut = [value[:MAX_LABEL_LENGTH] for value in values]
            self._keys[values] = self.prefix + json.dumps([self.name, *cut], ensure_ascii=False)
        return self._keys[values]


class Counter(_DeclaredMetric):
    """What only grows. Its name ends in `_total`."""

    def add(self, amount: float, *labels: str) -> None:
        store.add((self.key(*labels), amount))

    def family(self, values: Values) -> Metric:
        family = CounterMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in values or self._zero():
            family.add_metric(labels, value)
        return family

    def _zero(self) -> Values:
        return [] if self.labels else [((), 0.0)]


class Gauge(_DeclaredMetric):
    """What is so now, summed over the processes that live."""

    prefix = LIVE

    def add(self, amount: float, *labels: str) -> None:
        store.add((self.key(*labels), amount))

    def family(self, values: Values) -> Metric:
        family = GaugeMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in values or ([] if self.labels else [((), 0.0)]):
            family.add_metric(labels, value)
        return family


class Histogram(_DeclaredMetric):
    """How large things were, in buckets."""

    def __init__(self, name: str, help: str, *labels: str, buckets: Sequence[float] = REQUEST_BUCKETS) -> None:
        super().__init__(name, help, *labels)
        self.buckets = tuple(buckets)
        self._bounds = [str(bound) for bound in (*self.buckets, inf)]

    def observe(self, size: float, *labels: str) -> None:
        bound = self._bounds[bisect_left(self.buckets, size)]
        store.add((self.key(*labels, bound), 1.0), (self.key(*labels, "sum"), size))

    def observe_all(self, sizes: Iterable[float], *labels: str) -> None:
        """The same for many at once."""
        counts: dict[str, float] = defaultdict(float)
        for size in sizes:
            counts[self._bounds[bisect_left(self.buckets, size)]] += 1
            counts["sum"] += size
        if counts:
            store.add(*((self.key(*labels, last), count) for last, count in counts.items()))

    def family(self, values: Values) -> Metric:
        family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        by_labels: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
        for kept, value in values:
            by_labels[kept[:-1]][kept[-1]] = value
        for labels, counts in by_labels.items():
            told = accumulate(counts.get(bound, 0.0) for bound in self._bounds)
            bounds = [*self._bounds[:-1], "+Inf"]
            family.add_metric(labels, list(zip(bounds, told, strict=True)), counts.get("sum", 0.0))
        return family


def use_shared_folder(folder: Path) -> None:
    """Count together with the other processes that share this folder."""
    store.share(folder)


def metric_names() -> frozenset[str]:
    """The names of all that is declared."""
    return frozenset(_DeclaredMetric.all)


def render(further: Iterable[Metric] = ()) -> bytes:
    """What all processes have counted, and `further`, in Prometheus' text form. Reads files: not for an event loop."""
    return generate_latest(_Families([*_counted(store.read()), *further]))


def _counted(values: Mapping[str, float]) -> Iterator[Metric]:
    by_name: dict[str, Values] = defaultdict(list)
    for key, value in values.items():
        name, *labels = json.loads(key.removeprefix(LIVE))
        by_name[name].append((tuple(labels), value))
    for name, declared in sorted(_DeclaredMetric.all.items()):
        yield declared.family(sorted(by_name[name]))


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
