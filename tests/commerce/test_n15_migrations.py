"""Row N15: what migrations do while clients are served."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from shared.migration_operations import AddIndexBesideWrites, AddTextIndex, RemoveIndexBesideWrites
from tests.migrated_database import is_postgresql

pytestmark = pytest.mark.django_db(transaction=True)
only_postgresql = pytest.mark.skipif("not is_postgresql()", reason="SQLite has no locks of tables.")
TABLE, APP = "commerce_descriptions_descriptiondraft", "commerce_descriptions"
RESTARTABLE = (AddIndexBesideWrites, AddTextIndex, RemoveIndexBesideWrites)


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


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_n15_an_index_that_exists_or_was_interrupted_is_made_once(is_interrupted: bool):
    if is_interrupted and is_postgresql():
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'commerce_case_of_shop'::regclass"
            )
    name = "0010_case_of_shop_index"
    migration = import_module(f"commerce.moderation.migrations.{name}").Migration(name, "commerce_moderation")
    state = MigrationLoader(connection).project_state(("commerce_moderation", "0009_escalation_and_sanctions"))

    with connection.schema_editor(atomic=False) as editor:
        migration.apply(state, editor)

    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, "commerce_moderation_case")
        assert "commerce_case_of_shop" in constraints
        if is_postgresql():
            cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'commerce_case_of_shop'::regclass")
            assert cursor.fetchone() == (True,)


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
