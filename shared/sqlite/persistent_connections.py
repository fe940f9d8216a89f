"""A connection that a server holds to each SQLite file for as long as it runs.

While one is open, what SQLite has beside the file (`-wal`, `-shm`) stays. Without it a request that comes alone makes
them and removes them: that takes time, and room on a disk that may be full, where reads would then fail like writes.
"""

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.sqlite.statistics import analyze

BUSY_TIMEOUT_SECONDS = 1.0  # whoever starts a server waits no longer for somebody who writes

_connections: list[sqlite3.Connection] = []


def keep_connections_open(databases: Mapping[str, Mapping[str, Any]]) -> None:
    """Holds those of `settings.DATABASES` that are ours. Of one that is not there, or cannot be opened, nothing is
    held: requests say what is wrong with it. Each has a look at its tables, unless somebody writes just now."""
    for database in databases.values():
        path = Path(str(database["NAME"]))
        if database["ENGINE"] == "shared.sqlite" and path.is_file():
            with contextlib.suppress(sqlite3.Error):
                connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, check_same_thread=False)
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                _connections.append(connection)
                analyze(connection.execute)
