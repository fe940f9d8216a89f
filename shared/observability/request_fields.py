"""Fields of the current request, for its log line and its trace: ids and numbers, never content."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

FieldValue = str | int | float
RequestFields = dict[str, FieldValue]

# All tasks and threads of a request share one dictionary, each through a context of its own.
_fields: ContextVar[RequestFields | None] = ContextVar("request_fields", default=None)


def current_fields() -> RequestFields:
    """Return the fields of the current request; outside of a request, an empty dictionary that nobody reads."""
    fields = _fields.get()
    return {} if fields is None else fields


@contextmanager
def bind_fields(**initial: FieldValue) -> Iterator[RequestFields]:
    """Collect fields during the block, beginning with the given ones."""
    fields: RequestFields = dict(initial)
    token = _fields.set(fields)
    try:
        yield fields
    finally:
        _fields.reset(token)
