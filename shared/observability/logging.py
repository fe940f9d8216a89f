"""Logs: one line an event, JSON or (for development) readable, with the ids of its request and its trace.
structlog through stdlib logging.

A line is a fixed event name and fields. Never a prompt, an output, a key, a token, a body, a client's address. What an
exception says may quote all of these, so that a traceback has no words of most: see `tracebacks`.
Whatever a client put into a field cannot break or forge a line: control characters are escaped.
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
# Libraries whose lines quote what an exception says, which the traceback leaves out: from here on.
_QUOTES_AFTER = {"celery.app.trace": ": ", "asyncio": "\n"}


def logging_config(*, level: str, form: str) -> dict[str, Any]:
    """The dictionary for `logging.config`. ImproperlyConfigured: the level or the form (json, console) is none."""
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
            "django.security.DisallowedHost": {"level": "CRITICAL"},  # anybody can cause it; the request line says 400
            "django.request": {"level": "ERROR"},  # the request line says the status; only tracebacks are news
            "django.server": {"handlers": [], "propagate": True},
            "httpcore2": {"level": "WARNING"},  # every header of an outbound call, where DEBUG is asked for
            "httpx2": {"level": "WARNING"},  # one line an outbound call, with its address
            "opentelemetry.exporter": {"level": "CRITICAL"},  # a line each try; `trace_export` says it once
            "urllib3": {"level": "WARNING"},  # what that exporter calls
            "uvicorn": {"handlers": [], "propagate": True},
            "uvicorn.access": {"level": "WARNING"},  # the wrapper writes the one line a request
        },
    }


def configure_logging(config: dict[str, Any]) -> None:
    """Applies `logging_config`'s dictionary to stdlib logging and points structlog at it. Settings name this function
    as LOGGING_CONFIG, so that Django's set-up calls it."""
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
    """As a line of its own form: Python would write the whole traceback beside the log."""
    if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
        name = ended.thread.name if ended.thread else ""
        structlog.get_logger(__name__).error("thread_failed", thread=name, exc_info=ended.exc_value)


def _add_ids(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    for name, current in (("request_id", current_request_id()), ("trace_id", current_trace_id())):
        if current:
            event.setdefault(name, current)
    return event


def _escape_control(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A terminal obeys escape sequences: show them instead. A traceback keeps its lines."""
    for name, value in event.items():
        pattern = _CONTROL_BUT_NEWLINE if name in ("exception", "stack") else _CONTROL
        if not isinstance(value, int | float | bool | None):
            event[name] = pattern.sub(lambda match: ascii(match.group())[1:-1], str(value))
    return event
