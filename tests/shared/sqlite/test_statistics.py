"""Statistics of SQLite's query planner."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection

from shared.sqlite import persistent_connections, statistics
from shared.sqlite.tasks import refresh_statistics

# Without statistics the planner prefers two columns of an index to a part of one.
TABLE = """
    CREATE TABLE goods (id INTEGER PRIMARY KEY, code INTEGER, language TEXT, status TEXT);
    CREATE INDEX by_code ON goods (code);
    CREATE INDEX by_status ON goods (language, status);
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 5000)
    INSERT INTO goods SELECT n, n, 'en', 'publish' FROM numbers;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "stoa.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLE)
    return path


def plan(path: Path) -> str:
    with closing(sqlite3.connect(path)) as database:
        query = "SELECT * FROM goods WHERE language = 'en' AND status = 'publish' AND code BETWEEN 7 AND 9"
        return str(database.execute(f"EXPLAIN QUERY PLAN {query}").fetchall())


def test_c5_the_planner_uses_the_selective_index(path: Path):
    assert "by_status" in plan(path)

    with closing(sqlite3.connect(path)) as database:
        statistics.analyze(database.execute)

    assert "by_code" in plan(path)


def test_a_server_refreshes_statistics_when_it_starts(path: Path, monkeypatch: pytest.MonkeyPatch):
    held = list[sqlite3.Connection]()
    monkeypatch.setattr(persistent_connections, "_connections", held)

    persistent_connections.keep_connections_open({"default": {"ENGINE": "shared.sqlite", "NAME": str(path)}})

    assert "by_code" in plan(path)
    for one in held:
        one.close()


def test_a_server_starts_while_another_connection_writes(path: Path, monkeypatch: pytest.MonkeyPatch):
    held = list[sqlite3.Connection]()
    monkeypatch.setattr(persistent_connections, "_connections", held)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN IMMEDIATE")
        persistent_connections.keep_connections_open({"default": {"ENGINE": "shared.sqlite", "NAME": str(path)}})

    assert "by_status" in plan(path)
    assert len(held) == 1
    held[0].execute("BEGIN IMMEDIATE")
    held[0].close()


@pytest.mark.django_db
def test_a_worker_refreshes_statistics_of_sqlite_only():
    refresh_statistics()

    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM sqlite_master WHERE name LIKE 'sqlite_stat%'")
            assert {name for (name,) in cursor.fetchall()} >= {"sqlite_stat1"}
            cursor.execute("SELECT COUNT(*) FROM pragma_table_list WHERE name = 'sqlite_stat4'")
            if cursor.fetchone()[0]:  # only SQLite builds with STAT4 store values
                cursor.execute("SELECT COUNT(*) FROM sqlite_stat4")
                assert cursor.fetchone()[0] == 0
