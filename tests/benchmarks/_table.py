"""The form of a benchmark's outcome."""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Comparison:
    """One thing measured twice, in the same unit; `ratio` is ours to theirs."""

    name: str
    ours: float
    theirs: float
    unit: str

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs if self.theirs else math.inf


def arguments(description: str) -> argparse.Namespace:
    """`quick` and `json`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--json", type=Path, help="also write the table there")
    return parser.parse_args()


def publish(comparisons: Sequence[Comparison], json_file: Path | None) -> None:
    """Print the table; write it as `{"ratios": [{"name", "value"}, ...]}` as well."""
    width = max(len(comparison.name) for comparison in comparisons)
    print(f"{'':{width}}  {'ours':>12}  {'theirs':>12}  {'ratio':>6}")
    for row in comparisons:
        print(f"{row.name:{width}}  {row.ours:12.2f}  {row.theirs:12.2f}  {row.ratio:6.2f}  {row.unit}")
    if json_file:
        ratios = [{"name": comparison.name, "value": comparison.ratio} for comparison in comparisons]
        json_file.write_text(json.dumps({"ratios": ratios}, indent=2))
