"""Checks that the database and the disk can be written: for readiness, and before a server starts."""

import asyncio
import contextlib
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import OperationalError, connection, transaction

from shared.serving.db_threads import run_in_db_thread
from shared.sqlite.base import fail_if_locked

BLOCK_BYTES = 4096
LOCK_TIMEOUT_SECONDS = 8


async def check_database() -> None:
    """Read from the database, and check that it can be written. Raise the error of the driver if not."""
    await run_in_db_thread(require_writable_database)


async def check_disk() -> None:
    """Write a block to the folders of data. Raise OSError if one is full or read-only."""
    await asyncio.to_thread(require_writable_folders)


def require_writable_database() -> None:
    """Raise DatabaseError unless the database answers and is writable. Another writer at work is no error."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SHOW transaction_read_only")
            if cursor.fetchone() != ("off",):  # a standby, or set by the operator
                raise OperationalError("the database is read-only")
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM sqlite_master")
    try:
        with fail_if_locked(), transaction.atomic():
            pass  # the write lock alone, which a read-only database refuses
    except OperationalError as error:
        if "locked" not in str(error):
            raise


def require_writable_folders() -> None:
    """Raise OSError unless a block can be written to each of the folders that every process writes."""
    for folder in written_folders():
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(BLOCK_BYTES))
            file.flush()


def written_folders() -> set[Path]:
    """Return the folders of the metrics and of the SQLite database.

    Not the folder of all data: in a container it may be read-only around the mounts.
    """
    metrics = Path(settings.METRICS_DIR)  # made when it is first written
    folders = {next(folder for folder in (metrics, *metrics.parents) if folder.is_dir())}
    if database := sqlite_file():
        folders.add(database.parent)
    return folders


def require_sqlite_file(path: Path) -> None:
    """Raise sqlite3.Error unless the file is a database that can be written, before any connection of Django's."""
    with contextlib.closing(sqlite3.connect(path, timeout=LOCK_TIMEOUT_SECONDS)) as database:
        database.execute("SELECT count(*) FROM sqlite_master")  # waits while another process recovers the file
        database.execute("PRAGMA busy_timeout = 0")
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise


def sqlite_file() -> Path | None:
    """Return the file of the SQLite database, if it has one."""
    database: dict[str, Any] = settings.DATABASES.get("default", {})
    path = Path(str(database.get("NAME")))
    return path if database.get("ENGINE") == "shared.sqlite" and path.is_absolute() else None
