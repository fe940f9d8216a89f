"""The ledger's only writer, and the buffer in front of it, so that no request waits for the database."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import structlog
from django.db import Error as DatabaseError
from django.db import connection, transaction

from inference.engine import Usage
from inference.usage.models import COUNTED, DailyUsage

logger = structlog.get_logger(__name__)

ROWS_AT_ONCE = 50  # SQLite takes 999 parameters at the least

_COLUMNS = ("day", "user_id", "api_key_id", "model_id", *COUNTED)
_TABLE = DailyUsage._meta.db_table
_ROW = f"({', '.join(['%s'] * len(_COLUMNS))})"
_ADDED = ", ".join(f"{name} = {_TABLE}.{name} + excluded.{name}" for name in COUNTED)


@dataclass(frozen=True)
class Line:
    """What is summed up in one row. `api_key_id` None: a session."""

    day: date
    user_id: int
    api_key_id: int | None
    model_id: str

    @property
    def order(self) -> tuple[object, ...]:
        return (self.day, self.user_id, self.api_key_id or 0, self.model_id)


@dataclass(frozen=True)
class Amount:
    """Requests, and what they used together."""

    requests: int
    usage: Usage

    def __add__(self, other: "Amount") -> "Amount":
        one, two = self.usage, other.usage
        usage = Usage(
            one.prompt_tokens + two.prompt_tokens,
            one.completion_tokens + two.completion_tokens,
            one.cached_tokens + two.cached_tokens,
        )
        return Amount(self.requests + other.requests, usage)


@transaction.atomic
def write(amounts: Mapping[Line, Amount]) -> None:
    """Adds to the rows, or makes them. In one order, so that processes which write at once never wait in a circle."""
    ordered = sorted(amounts.items(), key=lambda item: item[0].order)
    with connection.cursor() as cursor:
        for start in range(0, len(ordered), ROWS_AT_ONCE):
            rows = ordered[start : start + ROWS_AT_ONCE]
            cursor.execute(
                f"INSERT INTO {_TABLE} ({', '.join(_COLUMNS)}) VALUES {', '.join([_ROW] * len(rows))} "  # noqa: S608  # nosec B608 names
                f"ON CONFLICT (day, user_id, COALESCE(api_key_id, 0), model_id) DO UPDATE SET {_ADDED}",
                [value for line, amount in rows for value in _values(line, amount)],
            )


def _values(line: Line, amount: Amount) -> tuple[str | int | None, ...]:
    usage = amount.usage
    prompt_tokens = max(0, usage.prompt_tokens)  # what another server tells may not add up
    cached_tokens = min(max(0, usage.cached_tokens), prompt_tokens)
    counts = (amount.requests, prompt_tokens, cached_tokens, max(0, usage.completion_tokens))
    return (line.day.isoformat(), line.user_id, line.api_key_id, line.model_id, *counts)


class Buffer:
    """Amounts that are not written yet. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._amounts: dict[Line, Amount] = {}

    def add(self, line: Line, amount: Amount) -> None:
        with self._lock:
            before = self._amounts.get(line)
            self._amounts[line] = before + amount if before else amount

    def flush(self) -> bool:
        """Writes them over a connection of this thread's own, and says whether that worked. What cannot be written now
        is kept for the next time."""
        with self._writing:
            with self._lock:
                amounts, self._amounts = self._amounts, {}
            if not amounts:
                return True
            try:
                write(amounts)
            except DatabaseError as error:
                logger.warning("usage_not_written", reason=type(error).__name__)
                for line, amount in amounts.items():
                    self.add(line, amount)
                return False
            finally:
                if not connection.in_atomic_block:  # as it is where tests roll back what they wrote
                    connection.close()
            return True
