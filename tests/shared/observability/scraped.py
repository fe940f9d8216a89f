"""Parser of /metrics responses."""

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]


class Scrape:
    """All series of one response, by name and labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.types: dict[str, str] = {}
        self.series: dict[tuple[str, Labels], float] = {}
        for family in text_string_to_metric_families(text):
            self.types[family.name] = family.type
            for sample in family.samples:
                key = sample.name, tuple(sorted(sample.labels.items()))
                assert key not in self.series, key
                self.series[key] = sample.value

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a series; 0 if it is missing, as Prometheus' increase() has it."""
        return self.series.get((name, tuple(sorted(labels.items()))), 0.0)

    def named(self, name: str) -> dict[Labels, float]:
        return {labels: value for (other, labels), value in self.series.items() if other == name}

    def labels(self, label: str) -> set[str]:
        return {value for _, labels in self.series for name, value in labels if name == label}


def grown(after: Scrape, before: Scrape, names: Iterable[str], **labels: str) -> list[float]:
    """Return the increase of each of these metrics."""
    return [after.value(name, **labels) - before.value(name, **labels) for name in names]
