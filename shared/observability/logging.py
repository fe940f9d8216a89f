"""Logs: one line per event, as JSON or readable text, with the ids of its request and its trace; structlog through
stdlib.

A line is a fixed event name and fields. It never contains a prompt, an output, a key, a token, a body or a client's
address. Exception messages may quote all of these, so tracebacks leave out most of them: see `tracebacks`.

Control characters are escaped, so no field of a client can break or forge a line.
"""

import logging.config
import re
import threading
from typing import Any

import structlog
from django.core.exceptions import ImproperlyConfigured
from structlog.typing import EventDict, Processor, WrappedLogger

from shared.observability.request_id import current_request_id
from shared.observability.tracebacks import format_traceback, format_whole
from shared.observability.tracing import current_trace_id

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_BUT_NEWLINE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# Libraries that quote exception messages, which tracebacks leave out; their lines are cut after this separator.
_QUOTES_AFTER = {"celery.app.trace": ": ", "asyncio": "\n"}


def logging_config(*, level: str, form: str) -> dict[str, Any]:
    """Return the dictionary for `logging.config`. Raise ImproperlyConfigured for an unknown level or format."""
    if level not in LEVELS:
        raise ImproperlyConfigured(f"STOA_LOG_LEVEL is {level!r}: choose one of {', '.join(LEVELS)}.")
    if form not in ("json", "console"):
        raise ImproperlyConfigured(f"STOA_LOG_FORMAT is {form!r}: choose json or console.")
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": [*_shared_processors(), *([] if level == "DEBUG" else [_cut_quotes])],
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(form, level)],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"handlers": [], "propagate": True},
            "django.security.DisallowedHost": {"level": "CRITICAL"},  # any client can cause it; its status is logged
            "django.request": {"level": "ERROR"},  # the request line has the status; only tracebacks add to it
            "django.server": {"handlers": [], "propagate": True},
            "httpcore2": {"level": "WARNING"},  # at DEBUG, every header of an outbound request
            "httpx2": {"level": "WARNING"},  # one line per outbound request, with its URL
            "mcp": {"level": "WARNING"},  # three lines per request of /mcp
            "opentelemetry.exporter": {"level": "CRITICAL"},  # a line per attempt; `trace_export` logs a failure once
            "urllib3": {"level": "WARNING"},  # used by that exporter
            "uvicorn": {"handlers": [], "propagate": True},
            "uvicorn.access": {"level": "WARNING"},  # the ASGI wrapper writes the request line
        },
    }


def configure_logging(config: dict[str, Any]) -> None:
    """Configure stdlib logging with the dictionary of `logging_config`, and route structlog to it.

    Settings name this function as LOGGING_CONFIG, so Django calls it when it starts.
    """
    logging.config.dictConfig(config)
    logging.captureWarnings(True)
    threading.excepthook = _log_end_of_thread
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _shared_processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        _add_ids,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def _renderers(form: str, level: str) -> list[Processor]:
    exceptions = structlog.processors.ExceptionRenderer(format_whole if level == "DEBUG" else format_traceback)
    if form == "json":
        return [exceptions, structlog.processors.JSONRenderer(default=str)]
    return [exceptions, _escape_control, structlog.dev.ConsoleRenderer()]


def _cut_quotes(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    if mark := _QUOTES_AFTER.get(event["_record"].name):
        event["event"] = event["event"].partition(mark)[0]
    return event


def _log_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    """Log an exception that ends a thread; Python itself would write the whole traceback to stderr."""
    if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
        name = ended.thread.name if ended.thread else ""
        structlog.get_logger(__name__).error("thread_failed", thread=name, exc_info=ended.exc_value)


def _add_ids(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    for name, current in (("request_id", current_request_id()), ("trace_id", current_trace_id())):
        if current:
            event.setdefault(name, current)
    return event


def _escape_control(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Escape control characters, which a terminal would obey. A traceback keeps its line breaks."""
    for name, value in event.items():
        pattern = _CONTROL_BUT_NEWLINE if name in ("exception", "stack") else _CONTROL
        if not isinstance(value, int | float | bool | None):
            event[name] = pattern.sub(lambda match: ascii(match.group())[1:-1], str(value))
    return event
