"""Writes to the usage ledger, and the buffer in front of it that keeps requests from waiting for the database."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Self

import structlog
from django.db import Error as DatabaseError
from django.db import connection, transaction

from inference.engine import Usage
from inference.usage.models import COUNT_FIELDS, MAX_MODEL_ID_LENGTH, DailyUsage

logger = structlog.get_logger(__name__)

ROWS_PER_STATEMENT = 50  # SQLite allows at least 999 parameters

_TABLE = DailyUsage._meta.db_table
_COLUMNS = ("day", "user_id", "api_key_id", "model_id", *COUNT_FIELDS)
_PLACEHOLDERS = f"({', '.join(['%s'] * len(_COLUMNS))})"
_ADDITIONS = ", ".join(f"{name} = {_TABLE}.{name} + excluded.{name}" for name in COUNT_FIELDS)


@dataclass(frozen=True)
class LedgerKey:
    """The unique key of a ledger row. `api_key_id` is None for sessions."""

    day: date
    user_id: int
    api_key_id: int | None
    model_id: str

    @classmethod
    def at(cls, now: datetime, *, user_id: int, api_key_id: int | None, model_id: str) -> Self:
        """Return the key of usage at this moment."""
        return cls(now.astimezone(UTC).date(), user_id, api_key_id, model_id[:MAX_MODEL_ID_LENGTH])

    @property
    def sort_key(self) -> tuple[object, ...]:
        return (self.day, self.user_id, self.api_key_id or 0, self.model_id)


@dataclass(frozen=True)
class LedgerAmount:
    """A number of requests, and their total token usage."""

    requests: int
    usage: Usage

    def __add__(self, other: "LedgerAmount") -> "LedgerAmount":
        one, two = self.usage, other.usage
        usage = Usage(
            one.prompt_tokens + two.prompt_tokens,
            one.completion_tokens + two.completion_tokens,
            one.cached_tokens + two.cached_tokens,
        )
        return LedgerAmount(self.requests + other.requests, usage)

    def counts(self) -> dict[str, int]:
        """Return the counts by field of `DailyUsage`, made consistent: remote servers may report anything."""
        prompt_tokens = max(0, self.usage.prompt_tokens)
        return {
            "requests": self.requests,
            "prompt_tokens": prompt_tokens,
            "cached_tokens": min(max(0, self.usage.cached_tokens), prompt_tokens),
            "completion_tokens": max(0, self.usage.completion_tokens),
        }


@transaction.atomic
def add_to_ledger(amounts: Mapping[LedgerKey, LedgerAmount]) -> None:
    """Add amounts to their rows, creating missing rows. Rows are sorted, so that concurrent writers never deadlock."""
    ordered = sorted(amounts.items(), key=lambda item: item[0].sort_key)
    with connection.cursor() as cursor:
        for start in range(0, len(ordered), ROWS_PER_STATEMENT):
            rows = ordered[start : start + ROWS_PER_STATEMENT]
            cursor.execute(
                f"INSERT INTO {_TABLE} ({', '.join(_COLUMNS)}) VALUES {', '.join([_PLACEHOLDERS] * len(rows))} "  # noqa: S608  # nosec B608 names
                f"ON CONFLICT (day, user_id, COALESCE(api_key_id, 0), model_id) DO UPDATE SET {_ADDITIONS}",
                [value for key, amount in rows for value in _row_values(key, amount)],
            )


def _row_values(key: LedgerKey, amount: LedgerAmount) -> list[str | int | None]:
    counts = amount.counts()
    return [key.day.isoformat(), key.user_id, key.api_key_id, key.model_id, *(counts[name] for name in COUNT_FIELDS)]


class LedgerBuffer:
    """A thread-safe buffer of amounts that are not in the ledger yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._amounts: dict[LedgerKey, LedgerAmount] = {}

    def add(self, key: LedgerKey, amount: LedgerAmount) -> None:
        with self._lock:
            before = self._amounts.get(key)
            self._amounts[key] = before + amount if before else amount

    def flush(self) -> bool:
        """Write the amounts over this thread's connection and return True, or keep them and return False."""
        with self._flushing:
            with self._lock:
                amounts, self._amounts = self._amounts, {}
            if not amounts:
                return True
            try:
                add_to_ledger(amounts)
            except DatabaseError as error:
                logger.warning("usage_write_failed", reason=type(error).__name__)
                for key, amount in amounts.items():
                    self.add(key, amount)
                return False
            finally:
                if not connection.in_atomic_block:  # tests run in a transaction that they roll back
                    connection.close()
            return True
