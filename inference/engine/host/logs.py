"""Logging of model hosts and model processes: one JSON line per event.

A traceback has the message of an exception only if the exception is about the machine. Other messages may quote a
prompt.
"""

import json
import logging
import threading
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime

_MACHINE_ERRORS = (OSError, MemoryError, RuntimeError, ImportError)  # torch raises RuntimeError


def start_logging(level: int) -> None:
    """Log this process to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLine())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    threading.excepthook = _log_end_of_thread


def _log_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    """Log an exception that ended a thread: Python would print its whole traceback."""
    if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
        logging.getLogger(__name__).error("engine.thread_failed", exc_info=ended.exc_value)


class JsonLine(logging.Formatter):
    """A formatter that writes a record as one JSON line."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        event = message.partition("\n")[0] if record.name == "asyncio" else message  # its later lines quote exceptions
        fields = {"event": event, "level": record.levelname.lower(), "logger": record.name}
        if record.exc_info and record.exc_info[1]:
            fields["exception"] = "".join(_lines(record.exc_info[1])).rstrip("\n")
        return json.dumps(fields | {"timestamp": datetime.fromtimestamp(record.created, UTC).isoformat()})


def _lines(error: BaseException) -> Iterator[str]:
    """Yield the lines of a traceback, beginning with the cause."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield from _lines(cause)
        yield "\nThen:\n\n"
    yield from traceback.format_tb(error.__traceback__)
    message = f": {error}" if isinstance(error, _MACHINE_ERRORS) else ""
    yield f"{type(error).__name__}{message}\n"
