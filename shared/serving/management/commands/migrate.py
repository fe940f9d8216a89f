"""Django's `migrate`, behind which no client of PostgreSQL waits for long.

A change of a table waits for the transactions that use it, such as that of a backup, and whoever comes after waits for
the change. So it waits half a second at most, and is tried again once those have gone on.
"""

import time
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from psycopg.errors import DeadlockDetected, LockNotAvailable

LOCK_TIMEOUT = "500ms"  # below deadlock_timeout (1 s), after which a client of a deadlock could fail instead
PAUSE_SECONDS = 2.0
MAX_SECONDS = 1800.0


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        if connection.vendor != "postgresql" or connection.in_atomic_block:
            super().handle(*args, **options)
            return
        give_up_at = time.monotonic() + MAX_SECONDS
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
        try:
            while not self._migrates(give_up_at, *args, **options):
                time.sleep(PAUSE_SECONDS)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")

    def _migrates(self, give_up_at: float, *args: Any, **options: Any) -> bool:
        """Migrate; return False if a table is in use. What was migrated before that stays."""
        try:
            super().handle(*args, **options)
        except OperationalError as error:
            if not isinstance(error.__cause__, LockNotAvailable | DeadlockDetected):
                raise
            if time.monotonic() > give_up_at:
                raise CommandError(
                    f"Other transactions have used a table for {MAX_SECONDS / 60:.0f} minutes: {error} Wait for a "
                    "running backup, or end them (pg_stat_activity lists them), then migrate again."
                ) from error
            self.stderr.write(f"\nA table is in use, so this waits and tries again: {str(error).splitlines()[0]}")
            return False
        return True
