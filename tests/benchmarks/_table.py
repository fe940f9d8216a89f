"""What every benchmark does at its end: print its table, and write it as JSON when asked."""

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def arguments(description: str) -> argparse.Namespace:
    """`--quick` and `--json FILE`, which every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table there")
    return parser.parse_args()


@dataclass
class Results:
    """Rows in the order they were measured, and the ratios that they come to."""

    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list)
    ratios: list[dict[str, Any]] = field(default_factory=list)

    def add(self, *row: Any) -> None:
        self.rows.append(list(row))

    def add_ratio(self, name: str, value: float) -> None:
        self.ratios.append({"name": name, "value": round(value, 3)})

    def show(self, json_file: Path | None) -> None:
        table = Table(*self.columns)
        for row in self.rows:
            table.add_row(*(f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in row))
        console = Console()
        console.print(table)
        for ratio in self.ratios:
            console.print(f"{ratio['name']}: {ratio['value']}")
        if json_file:
            content = {"columns": self.columns, "rows": self.rows, "ratios": self.ratios}
            json_file.write_text(json.dumps(content, indent=2))
