"""A server without a broker, and so without a worker, maintains the rollups itself."""

import contextlib
import shutil
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.commerce.live_server import make_shop, shop_environment, start_server, url_of
from tests.migrated_database import migrated_file

pytestmark = pytest.mark.no_database

STATE = "SELECT time_zone, generation, reconciled_on IS NOT NULL, (SELECT count(*) FROM commerce_analytics_entry)"
TIMEOUT_SECONDS = 60


def read_state(home: Path) -> Any:
    with contextlib.closing(sqlite3.connect(home / "stoa.sqlite3", timeout=30)) as database:
        return database.execute(f"{STATE} FROM commerce_analytics_books").fetchone()


@pytest.mark.timeout(300)
def test_the_server_aggregates_rebuilds_and_reconciles_without_a_worker(tmp_path: Path):
    noon_offset = 12 - datetime.now(UTC).hour
    zones = [f"Etc/GMT{-offset:+d}" for offset in (noon_offset, noon_offset + 1)]
    environment = shop_environment(str(tmp_path)) | {"STOA_ANALYTICS_TIME_ZONE": zones[0]}
    shutil.copy(migrated_file(), tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "stoa.sqlite3")) as database, database:
        database.execute("UPDATE commerce_analytics_books SET time_zone = ?", zones[:1])
    make_shop(environment)
    with contextlib.closing(sqlite3.connect(tmp_path / "stoa.sqlite3")) as database, database:
        database.execute("UPDATE accounts_user SET created_at = '2026-01-01 12:00:00' WHERE role = 'CUSTOMER'")
    zone, generation, is_reconciled, waiting = read_state(tmp_path)
    assert (zone, is_reconciled) == (zones[0], False)
    assert waiting > 0

    process = start_server(environment | {"STOA_ANALYTICS_TIME_ZONE": zones[1]}, tmp_path / "log")
    try:
        url_of(process, tmp_path / "log")
        expected, until = (zones[1], generation + 1, True, 0), time.monotonic() + TIMEOUT_SECONDS
        while read_state(tmp_path) != expected and time.monotonic() < until:
            time.sleep(0.2)
        assert read_state(tmp_path) == expected
    finally:
        process.terminate()
        assert process.wait(30) == 0
