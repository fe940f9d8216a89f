"""Row N15: what migrations do while clients are served."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from shared.migration_operations import AddIndexBesideWrites, AddPostgresqlIndex, RemoveIndexBesideWrites
from tests.migrated_database import is_postgresql

pytestmark = pytest.mark.django_db(transaction=True)
only_postgresql = pytest.mark.skipif("not is_postgresql()", reason="SQLite has no locks of tables.")
TABLE, APP = "commerce_descriptions_descriptiondraft", "commerce_descriptions"
INDEX = "commerce_case_of_shop"
RESTARTABLE = (AddIndexBesideWrites, AddPostgresqlIndex, RemoveIndexBesideWrites)


@pytest.fixture
def _without_last_migration() -> Iterator[None]:
    call_command("migrate", APP, "0008", verbosity=0)
    yield
    call_command("migrate", verbosity=0)


def connect() -> psycopg.Connection:
    parameters = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    return psycopg.connect(**{name: parameters[name] for name in names if parameters.get(name)}, autocommit=True)


def migrate() -> None:
    try:
        call_command("migrate", APP, verbosity=0)
    finally:
        connection.close()


@only_postgresql
@pytest.mark.usefixtures("_without_last_migration")
def test_n15_clients_do_not_wait_for_a_migration_that_waits_for_a_backup():
    longest = 0.0
    with connect() as backup, connect() as client, ThreadPoolExecutor(1) as threads:
        with backup.transaction():
            backup.execute(f"LOCK TABLE {TABLE} IN ACCESS SHARE MODE")  # as pg_dump does
            migration = threads.submit(migrate)
            ends_at = time.monotonic() + 4
            while time.monotonic() < ends_at:
                began = time.monotonic()
                client.execute(f"SELECT count(*) FROM {TABLE}")  # noqa: S608 a table of ours
                longest = max(longest, time.monotonic() - began)
                threading.Event().wait(0.01)
            assert not migration.done()
        migration.result(30)

    assert 0.1 < longest < 1.5  # it tried
    with connection.cursor() as cursor:
        columns = [column.name for column in connection.introspection.get_table_description(cursor, TABLE)]
    assert "is_fallback" in columns


def index_is_valid() -> bool | None:
    """Return whether the index is valid, which all are on SQLite; None if there is none."""
    with connection.cursor() as cursor:
        if INDEX not in connection.introspection.get_constraints(cursor, "commerce_moderation_case"):
            return None
        if is_postgresql():
            cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [INDEX])
            return bool(cursor.fetchone()[0])
    return True


def interrupt_creation() -> None:
    if is_postgresql():
        with connection.cursor() as cursor:
            cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass(%s)", [INDEX])


def run_operation(operation: Operation, direction: str, before: Any, after: Any) -> None:
    with connection.schema_editor(atomic=False) as editor:
        getattr(operation, f"database_{direction}")("commerce_moderation", editor, before, after)


@pytest.mark.parametrize("is_interrupted", [False, True])
@pytest.mark.parametrize("has_removed", [False, True])
def test_n15_operations_on_an_index_run_again_in_both_directions(has_removed: bool, is_interrupted: bool):
    states = MigrationLoader(connection)
    without, with_index = (
        states.project_state(("commerce_moderation", name))
        for name in ("0009_escalation_and_sanctions", "0010_case_of_shop_index")
    )
    name = "0010_case_of_shop_index"
    (added,) = (
        operation
        for operation in import_module(f"commerce.moderation.migrations.{name}").Migration.operations
        if operation.index.name == INDEX
    )
    makes = (RemoveIndexBesideWrites("case", INDEX), "backwards") if has_removed else (added, "forwards")
    drops = (RemoveIndexBesideWrites("case", INDEX), "forwards") if has_removed else (added, "backwards")

    run_operation(*makes, without, with_index)
    if is_interrupted:
        interrupt_creation()
        run_operation(*makes, without, with_index)
    assert index_is_valid()
    for _ in range(2):
        run_operation(*drops, with_index, without)
        assert index_is_valid() is None
    for _ in range(2):
        run_operation(*makes, without, with_index)
        assert index_is_valid()


def test_n15_migrations_that_are_no_transaction_can_be_run_again():
    unsafe = [
        f"{label}.{name}: {operation.describe()}"
        for (label, name), migration in MigrationLoader(None).disk_migrations.items()
        if type(migration).__module__.startswith(("shared.", "commerce.", "inference.")) and not migration.atomic
        for operation in migration.operations
        if not isinstance(operation, RESTARTABLE) and not _fills_rows(operation)
    ]
    assert unsafe == []


def _fills_rows(operation: object) -> bool:
    """Return whether this is a function of ours that passes over the rows that it has filled."""
    return getattr(getattr(operation, "code", None), "__name__", "").startswith("fill_")
