"""The table of results that a benchmark prints."""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType


@dataclass(frozen=True)
class Comparison:
    """A measurement beside its baseline, in the same unit."""

    name: str
    measured: float
    baseline: float
    unit: str

    @property
    def ratio(self) -> float:
        return self.measured / self.baseline if self.baseline else math.inf


def arguments(description: str, flags: Mapping[str, str] = MappingProxyType({})) -> argparse.Namespace:
    """Parse the options `--quick` and `--json`, and flags by their help."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    for name, text in flags.items():
        parser.add_argument(name, action="store_true", help=text)
    return parser.parse_args()


def publish(comparisons: Sequence[Comparison], json_file: Path | None) -> None:
    """Print the table, and write `{"ratios": [{"name", "value"}, ...]}` to the JSON file, if one is given."""
    width = max(len(comparison.name) for comparison in comparisons)
    print(f"{'':{width}}  {'measured':>12}  {'baseline':>12}  {'ratio':>6}")
    for row in comparisons:
        print(f"{row.name:{width}}  {row.measured:12.2f}  {row.baseline:12.2f}  {row.ratio:6.2f}  {row.unit}")
    if json_file:
        ratios = [{"name": comparison.name, "value": comparison.ratio} for comparison in comparisons]
        json_file.write_text(json.dumps({"ratios": ratios}, indent=2))
