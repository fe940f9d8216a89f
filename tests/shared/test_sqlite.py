"""Waiting of transactions for each other on SQLite."""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.no_database]


@pytest.fixture(autouse=True)
def _on_sqlite(db: None) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("about SQLite")


@contextlib.contextmanager
def somebody_writing() -> Iterator[sqlite3.Connection]:
    name: Any = connection.settings_dict["NAME"]
    with contextlib.closing(sqlite3.connect(name, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def busy_timeout() -> int:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        return int(cursor.fetchone()[0])


def test_a_transaction_begins_once_the_other_has_ended():
    connection.ensure_connection()
    with somebody_writing() as other:
        ending = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
        ending.start()
        began = time.monotonic()
        with transaction.atomic():
            waited = time.monotonic() - began
        ending.join()

    assert waited >= 0.2
    assert busy_timeout() == 8000


def test_a_transaction_fails_after_the_timeout_of_the_settings(monkeypatch: pytest.MonkeyPatch):
    connection.ensure_connection()
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 0.2)
    with somebody_writing(), pytest.raises(OperationalError, match="locked"), transaction.atomic():
        raise AssertionError("It began.")
    monkeypatch.undo()

    with transaction.atomic():
        pass
    assert busy_timeout() == 8000
