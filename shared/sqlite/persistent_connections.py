"""Connections that a server keeps open to each SQLite file until it ends.

SQLite keeps the files `-wal` and `-shm` as long as a connection is open. Otherwise each lone request creates and
deletes them. That takes time, and space on a disk that may be full, where reads would then fail as well.
"""

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.sqlite.statistics import analyze

BUSY_TIMEOUT_SECONDS = 1.0  # maximum wait for a writer when a server starts

_connections: list[sqlite3.Connection] = []


def keep_connections_open(databases: Mapping[str, Mapping[str, Any]]) -> None:
    """Open a connection to each existing SQLite file of `settings.DATABASES`, and refresh its planner statistics.

    Files that cannot be opened are skipped: requests report what is wrong with them. Statistics are skipped while
    another connection writes.
    """
    for database in databases.values():
        path = Path(str(database["NAME"]))
        if database["ENGINE"] == "shared.sqlite" and path.is_file():
            with contextlib.suppress(sqlite3.Error):
                connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, check_same_thread=False)
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                _connections.append(connection)
                analyze(connection.execute)
