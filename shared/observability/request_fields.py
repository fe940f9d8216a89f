"""What is learned of a request while it is answered, for its one log line and its trace: ids and numbers, never a word
of what was said."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

FieldValue = str | int | float
RequestFields = dict[str, FieldValue]

# One dictionary for all tasks and threads that work on the request: each has a context of its own.
_notes: ContextVar[RequestFields | None] = ContextVar("request_notes", default=None)


def current_fields() -> RequestFields:
    """Those of the request that is being answered; outside of one, some that nobody will read."""
    notes = _notes.get()
    return {} if notes is None else notes


@contextmanager
def bind_fields(**known: FieldValue) -> Iterator[RequestFields]:
    """Notes for the time of the block, with what is known already."""
    notes: RequestFields = dict(known)
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)
