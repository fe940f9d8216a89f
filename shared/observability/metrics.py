"""Metrics, declared in the modules that count them and rendered in Prometheus' text format.

    ATTEMPTS = Counter("stoa_webhook_attempts_total", "Attempts at webhooks, by outcome.", "outcome")
    ATTEMPTS.add(1, "delivered")

A label has few values, never one from a client, or the number of series would be unbounded. `metrics_store` adds up the
numbers of several processes.
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

OTHER = "other"  # label of all unknown values
MAX_LABEL_LENGTH = 128

# In seconds.
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
    """A metric with its name in Prometheus and a help text of one sentence."""

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
        """Return its values as Prometheus' client library represents them."""

    def key(self, *values: str) -> str:
        """Return the key of its value with these labels in the store."""
        if values not in self._keys:
            cut = [value[:MAX_LABEL_LENGTH] for value in values]
            self._keys[values] = self.prefix + json.dumps([self.name, *cut], ensure_ascii=False)
        return self._keys[values]


class _Sum(_DeclaredMetric):
    family_class: ClassVar[type[CounterMetricFamily | GaugeMetricFamily]]

    def add(self, amount: float, *labels: str) -> None:
        store.add((self.key(*labels), amount))

    def family(self, values: Values) -> Metric:
        family = self.family_class(self.name, self.help, labels=self.labels)
        for labels, value in values or ([] if self.labels else [((), 0.0)]):
            family.add_metric(labels, value)
        return family


class Counter(_Sum):
    """Metric that only grows. Its name ends in `_total`."""

    family_class = CounterMetricFamily


class Gauge(_Sum):
    """Metric of a current value, summed over the running processes."""

    prefix = LIVE
    family_class = GaugeMetricFamily


class Histogram(_DeclaredMetric):
    """Metric of a distribution of values, in buckets."""

    def __init__(self, name: str, help: str, *labels: str, buckets: Sequence[float] = REQUEST_BUCKETS) -> None:
        super().__init__(name, help, *labels)
        self.buckets = tuple(buckets)
        self._bounds = [str(bound) for bound in (*self.buckets, inf)]

    def observe(self, size: float, *labels: str) -> None:
        bound = self._bounds[bisect_left(self.buckets, size)]
        store.add((self.key(*labels, bound), 1.0), (self.key(*labels, "sum"), size))

    def observe_all(self, sizes: Iterable[float], *labels: str) -> None:
        """Observe many values at once."""
        counts: dict[str, float] = defaultdict(float)
        for size in sizes:
            counts[self._bounds[bisect_left(self.buckets, size)]] += 1
            counts["sum"] += size
        if counts:
            store.add(*((self.key(*labels, last), count) for last, count in counts.items()))

    def family(self, values: Values) -> Metric:
        family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        by_labels: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
        for key, value in values:
            by_labels[key[:-1]][key[-1]] = value
        for labels, counts in by_labels.items():
            totals = accumulate(counts.get(bound, 0.0) for bound in self._bounds)
            bounds = [*self._bounds[:-1], "+Inf"]
            family.add_metric(labels, list(zip(bounds, totals, strict=True)), counts.get("sum", 0.0))
        return family


def use_shared_folder(folder: Path) -> None:
    """Share the metrics with the other processes that use this folder."""
    store.share(folder)


def metric_names() -> frozenset[str]:
    """Return the names of all declared metrics."""
    return frozenset(_DeclaredMetric.all)


def render(further: Iterable[Metric] = ()) -> bytes:
    """Return the metrics of all processes, and `further` ones, in Prometheus' text format.

    It reads files, so do not call it in an event loop.
    """
    return generate_latest(_FamilyCollector([*_stored_families(store.read()), *further]))


def _stored_families(values: Mapping[str, float]) -> Iterator[Metric]:
    by_name: dict[str, Values] = defaultdict(list)
    for key, value in values.items():
        name, *labels = json.loads(key.removeprefix(LIVE))
        by_name[name].append((tuple(labels), value))
    for name, declared in sorted(_DeclaredMetric.all.items()):
        yield declared.family(sorted(by_name[name]))


class _FamilyCollector(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
