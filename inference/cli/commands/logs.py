"""The command `logs`."""

import time
from collections import deque
from pathlib import Path
from typing import Annotated, TextIO

import typer
from django.conf import settings

from inference.cli.errors import EXIT_NOT_FOUND, exit_with_error
from inference.cli.output import escape_control_characters

POLL_INTERVAL_SECONDS = 0.3


def logs(
    name: Annotated[str | None, typer.Argument(help="A process of the demo, such as inference. Default: all.")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="The last lines of each log.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C.")] = False,
) -> None:
    """Print the logs of the demo's processes. Other installations log to what started them: see journalctl."""
    folder = settings.VAR_DIR / "log"
    paths = sorted(folder.glob("*.log"))
    names = [path.stem for path in paths]
    if not paths:
        exit_with_error(f"There are no logs in {folder}: the demo writes them there.", EXIT_NOT_FOUND)
    if name is not None and name not in names:
        exit_with_error(f"There is no log {name!r}. There are: {', '.join(names)}.", EXIT_NOT_FOUND)
    chosen = [path for path in paths if name in (None, path.stem)]
    width = max(len(path.stem) for path in chosen) if len(chosen) > 1 else 0
    files = []
    for path in chosen:
        file = path.open(encoding="utf-8", errors="replace")
        for line in deque(file, maxlen=lines):
            _print(path, line, width)
        files.append((path, file))
    while follow:
        if not any([_print_new_lines(path, file, width) for path, file in files]):
            time.sleep(POLL_INTERVAL_SECONDS)


def _print_new_lines(path: Path, file: TextIO, width: int) -> bool:
    """Print complete lines written since the last call. Return whether there were any."""
    printed = False
    if path.stat().st_size < file.tell():  # the demo was started anew
        file.seek(0)
    while True:
        position = file.tell()
        line = file.readline()
        if not line.endswith("\n"):
            file.seek(position)
            return printed
        _print(path, line, width)
        printed = True


def _print(path: Path, line: str, width: int) -> None:
    prefix = f"{path.stem:{width}} | " if width else ""
    typer.echo(prefix + escape_control_characters(line.rstrip("\n").expandtabs()))
