"""For tests of several transactions that write to the audit log: the database refuses to have it emptied after them."""

from collections.abc import Iterator

import pytest
from django.db import connection

from shared.audit.triggers import TABLE, TRUNCATE_TRIGGER_NAME, partition_names, trigger_names


@pytest.fixture
def log_can_be_emptied(transactional_db: None) -> Iterator[None]:
    """After the test the triggers are dropped; migrating, which ends such a test, makes them anew."""
    yield
    with connection.cursor() as cursor:
        for name in trigger_names(connection):
            cursor.execute(f"DROP TRIGGER {name}" + (f" ON {TABLE}" if connection.vendor == "postgresql" else ""))
        for partition in partition_names(connection):
            cursor.execute(f"DROP TRIGGER IF EXISTS {TRUNCATE_TRIGGER_NAME} ON {partition}")
