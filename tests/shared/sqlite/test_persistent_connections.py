"""Connections that a server keeps open."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from shared.sqlite import persistent_connections


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(persistent_connections, "_connections", [])
    return tmp_path / "stoa.sqlite3"


def hold(path: Path) -> None:
    persistent_connections.keep_connections_open({"default": {"ENGINE": "shared.sqlite", "NAME": str(path)}})


def use_once(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS used (at)")


def test_d7_the_wal_files_stay_between_requests(database: Path) -> None:
    use_once(database)
    beside = Path(f"{database}-shm")
    assert not beside.exists()

    hold(database)
    use_once(database)

    assert beside.exists()
    for connection in persistent_connections._connections:
        connection.close()


def test_a_missing_database_is_not_created(database: Path) -> None:
    hold(database)
    assert not database.exists()
    assert persistent_connections._connections == []


def test_an_invalid_database_file_does_not_keep_a_server_from_starting(database: Path) -> None:
    database.write_bytes(b"no database at all" * 100)
    hold(database)
    assert persistent_connections._connections == []
