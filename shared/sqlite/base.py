"""How a transaction begins. SQLite gives the right to write to whoever asks at the right moment, and who waits in its
own way asks ten times a second: of many who write all the time one may wait past every limit. Here they ask often.
"""

import random
import sqlite3
import time

from django.db import OperationalError
from django.db.backends.sqlite3 import base

ASK_EVERY_S = (0.001, 0.005)  # at random in between, so that those who wait do not keep step


class DatabaseWrapper(base.DatabaseWrapper):
    """Waits for its turn no longer than the option `timeout` says, as Django's own."""

    transaction_mode: str | None  # Django sets it, but its types do not say so

    def _start_transaction_under_autocommit(self) -> None:
        limit_s = float(self.settings_dict["OPTIONS"].get("timeout", 5))
        give_up_at = time.monotonic() + limit_s
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            while not self._begins() and time.monotonic() < give_up_at:
                time.sleep(random.uniform(*ASK_EVERY_S))  # noqa: S311 - no secret
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {int(limit_s * 1000)}")
        if not self.connection.in_transaction:
            raise OperationalError("database is locked")

    def _begins(self) -> bool:
        """No cursor outlives a refusal. One in a traceback would wait for the garbage collector, and if that ran in the
        thread that writes, it would wait for this connection, which waits for that thread."""
        try:
            self.connection.execute(f"BEGIN {self.transaction_mode or ''}")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                return False
            raise OperationalError(str(error)) from error
        return True
