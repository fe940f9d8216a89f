"""The log of a model host and of model processes: JSON, a line an event, as the servers beside them write theirs.

A traceback tells where and what kind, and what it says only where that is of the machine: other exceptions quote what
they could not take, and that may be a prompt.
"""

import json
import logging
import threading
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime

_OF_THE_MACHINE = (OSError, MemoryError, RuntimeError, ImportError)  # torch's are RuntimeErrors


def start_logging(level: int) -> None:
    """Of this process, to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLine())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    threading.excepthook = _log_end_of_thread


def _log_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    """As a line: Python would write the whole traceback beside the log."""
    if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
        logging.getLogger(__name__).error("engine.thread_failed", exc_info=ended.exc_value)


class JsonLine(logging.Formatter):
    """A record as one line."""

    def format(self, record: logging.LogRecord) -> str:
        said = record.getMessage()
        event = said.partition("\n")[0] if record.name == "asyncio" else said  # it quotes exceptions from there on
        told = {"event": event, "level": record.levelname.lower(), "logger": record.name}
        if record.exc_info and record.exc_info[1]:
            told["exception"] = "".join(_lines(record.exc_info[1])).rstrip("\n")
        return json.dumps(told | {"timestamp": datetime.fromtimestamp(record.created, UTC).isoformat()})


def _lines(error: BaseException) -> Iterator[str]:
    """What led to it comes first."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _lines(before)
        yield "\nAfter that:\n\n"
    yield from traceback.format_tb(error.__traceback__)
    words = f": {error}" if isinstance(error, _OF_THE_MACHINE) else ""
    yield f"{type(error).__name__}{words}\n"
