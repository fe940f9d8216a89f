"""Tracebacks for the log: places and types of errors, without their messages.

Exceptions quote the values that they refuse, as in `Field 'id' expected a number but got '...'`. So a prompt or a key
might get into the log. Only errors of the machine keep their message. STOA_LOG_LEVEL=DEBUG logs all messages.
"""

import traceback
from collections.abc import Iterator
from types import TracebackType

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]

_OF_THE_MACHINE = (OSError, ImportError, ImproperlyConfigured, OperationalError, InterfaceError)
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


def format_traceback(exc_info: ExcInfo) -> str:
    """Return the traceback as Python prints it, without most messages."""
    return "".join(_lines(exc_info[1], set())).rstrip("\n")


def format_whole(exc_info: ExcInfo) -> str:
    """Return the traceback as Python prints it."""
    return "".join(traceback.format_exception(*exc_info)).rstrip("\n")


def _lines(error: BaseException, seen: set[int]) -> Iterator[str]:
    """Yield the lines of the traceback, causes first, each error once."""
    seen.add(id(error))
    before, link = error.__cause__, _CAUSE
    if before is None and not error.__suppress_context__:
        before, link = error.__context__, _CONTEXT
    if before is not None and id(before) not in seen:
        yield from _lines(before, seen)
        yield link
    if error.__traceback__:
        yield "Traceback (most recent call last):\n"
        yield from traceback.format_tb(error.__traceback__)
    for inner in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield from _lines(inner, seen)
    words = f": {error}" if isinstance(error, _OF_THE_MACHINE) else ""
    yield f"{_name(type(error))}{words}\n"


def _name(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
