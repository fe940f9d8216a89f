"""Row N13: readiness fails while the database or the disk cannot be written."""

import json
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test import RequestFactory
from pytest_django import Settings

from shared.observability import health
from shared.serving import storage_checks

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.each_database]

READ_ONLY = {"sqlite": "PRAGMA query_only = {}", "postgresql": "SET default_transaction_read_only = {}"}


def readiness() -> tuple[int, dict[str, str]]:
    view = health.readyz(database=storage_checks.check_database, disk=storage_checks.check_disk)
    answer = async_to_sync(view)(RequestFactory().get("/readyz"))
    return answer.status_code, json.loads(answer.content)["checks"]


def test_a_writable_database_and_disk_are_ready():
    assert readiness() == (200, {"database": "ok", "disk": "ok"})


def test_a_database_in_which_another_writes_is_ready():
    with transaction.atomic():
        connection.cursor().execute("CREATE TABLE held (id integer)")
        assert readiness() == (200, {"database": "ok", "disk": "ok"})
        transaction.set_rollback(True)


def test_n13_a_folder_that_cannot_be_written_is_not_ready(settings: Settings):
    settings.METRICS_DIR = Path("/proc/metrics")
    assert readiness() == (503, {"database": "ok", "disk": "failed"})


def test_n13_a_database_that_cannot_be_written_is_not_ready():
    connection.cursor().execute(READ_ONLY[connection.vendor].format("on"))
    try:
        with pytest.raises(Exception, match=r"readonly|read-only"):
            storage_checks.require_writable_database()
    finally:
        connection.cursor().execute(READ_ONLY[connection.vendor].format("off"))
