"""Retention of the audit log, and its monthly partitions on PostgreSQL."""

from datetime import UTC, datetime, timedelta
from importlib import import_module
from threading import Event, Thread
from typing import Any

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, transaction

from shared.audit.models import AuditEntry
from shared.audit.partitions import DEFAULT, FIRST, create_partitions, next_month
from shared.audit.retention import maintain
from shared.audit.services import record_audit_entry
from shared.audit.triggers import missing_triggers, partition_names

pytestmark = pytest.mark.django_db
JUNE = datetime(2031, 6, 1, tzinfo=UTC)  # no migration has made its partition
JULY = next_month(JUNE)


@pytest.fixture
def postgresql() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no partitions")


def entry(at: datetime) -> AuditEntry:
    made = record_audit_entry(action="shop.opened", actor=None, target_type="Shop", target_id=1, details={}, now=at)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")  # as after a commit
    return made


def partition_of(made: AuditEntry) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM audit_auditentry WHERE id = %s", [made.pk])
        return str(cursor.fetchone()[0])


def stored() -> set[int]:
    return set(AuditEntry.objects.values_list("pk", flat=True))


def test_entries_are_removed_by_whole_months_and_no_later_one_is_lost(settings: Any):
    settings.AUDIT_RETENTION = timedelta(days=30)
    maintain(now=JUNE)
    first, last = entry(JUNE), entry(JULY - timedelta(microseconds=1))
    later = [entry(JULY), entry(JULY + timedelta(days=30))]

    maintain(now=JULY + timedelta(days=29))
    assert stored() == {first.pk, last.pk, *(made.pk for made in later)}
    maintain(now=JULY + timedelta(days=30))
    assert stored() == {made.pk for made in later}
    assert missing_triggers() == []


def test_the_default_retention_keeps_entries():
    made = entry(JUNE)
    maintain(now=JUNE + timedelta(days=20 * 365))
    assert stored() == {made.pk}


@pytest.mark.usefixtures("postgresql")
def test_the_partition_of_a_month_is_dropped_whole(settings: Any):
    settings.AUDIT_RETENTION = timedelta(days=30)
    maintain(now=JUNE)
    names = [partition_of(entry(JUNE)), partition_of(entry(JULY))]
    assert names == ["audit_auditentry_2031_06", "audit_auditentry_2031_07"]

    maintain(now=next_month(JULY))
    assert set(partition_names(connection)) & set(names) == {names[1]}
    assert {f"audit_auditentry_2031_{month:02}" for month in (8, 9, 10)} <= set(partition_names(connection))


@pytest.mark.usefixtures("postgresql")
def test_entries_without_a_partition_are_stored_and_get_one():
    made = [entry(JUNE), entry(JULY), entry(JUNE + timedelta(days=4000))]
    assert {partition_of(each) for each in made} == {DEFAULT}

    maintain(now=JULY)
    assert [partition_of(each) for each in made] == [
        "audit_auditentry_2031_06",
        "audit_auditentry_2031_07",
        "audit_auditentry_2042_05",
    ]
    assert AuditEntry.objects.get(pk=made[0].pk).at == JUNE
    assert partition_of(entry(JUNE - timedelta(days=1))) == DEFAULT
    assert missing_triggers() == []


@pytest.mark.usefixtures("postgresql")
@pytest.mark.parametrize("statement", ["UPDATE {} SET action = 'x'", "DELETE FROM {}", "TRUNCATE {}"])
def test_each_partition_is_append_only(statement: str):
    maintain(now=JUNE)
    for at, name in ((JUNE, "audit_auditentry_2031_06"), (JUNE - timedelta(days=1), DEFAULT)):
        made = entry(at)
        assert partition_of(made) == name
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement.format(name))
        assert made.pk in stored()


@pytest.mark.usefixtures("postgresql")
def test_the_former_table_becomes_a_partition_with_entries_of_a_clock_ahead_and_its_grants():
    migration = import_module("shared.audit.migrations.0002_monthly_partitions")
    made = [entry(JUNE - timedelta(days=4000)), entry(JUNE)]
    with connection.cursor() as cursor, connection.schema_editor() as editor:
        migration.merge(apps, editor)
        assert [partition_of(each) for each in made] == ["audit_auditentry"] * 2
        cursor.execute("CREATE ROLE audit_reader; GRANT SELECT, INSERT ON audit_auditentry TO audit_reader")
        migration.partition(apps, editor)
        assert [partition_of(each) for each in made] == [FIRST] * 2
        for privilege, is_granted in {"SELECT": True, "INSERT": True, "DELETE": False}.items():
            cursor.execute("SELECT has_table_privilege('audit_reader', 'audit_auditentry', %s)", [privilege])
            assert cursor.fetchone()[0] is is_granted
    assert missing_triggers() == []
    assert partition_of(entry(JULY)) == DEFAULT
    assert entry(JUNE).pk > made[1].pk


@pytest.mark.usefixtures("postgresql")
def test_the_newest_entries_are_read_by_indexes_of_partitions():
    maintain(now=JUNE)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    assert "Seq Scan" not in AuditEntry.objects.all()[:50].explain()
    assert DEFAULT in AuditEntry.objects.filter(at__gte=JUNE).explain()
    assert "2031_06" not in AuditEntry.objects.filter(at__gte=JULY).explain()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("postgresql")
def test_no_concurrent_write_is_lost_while_partitions_are_created():
    ended, failures, written = Event(), list[BaseException](), list[int]()

    def write() -> None:
        try:
            while not ended.is_set():
                at = JUNE + timedelta(days=10 * (len(written) % 12))
                written.append(
                    record_audit_entry(
                        action="shop.opened", actor=None, target_type="Shop", target_id=1, details={}, now=at
                    ).pk
                )
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    writers = [Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    try:
        created = [name for days in range(0, 200, 20) for name in create_in_time(JUNE + timedelta(days=days))]
    finally:
        ended.set()
        for writer in writers:
            writer.join()
    assert failures == []
    assert len(created) == len(set(created)) >= 6
    assert stored() == set(written)
    create_partitions(connection, now=JUNE)
    assert {name for name in partition_names(connection) if "_2031_" in name or "_2032_" in name} >= set(created)


def create_in_time(now: datetime) -> list[str]:
    """Create partitions as the periodic task does, which tries again later if the table is in use."""
    for _ in range(20):
        try:
            return create_partitions(connection, now=now)
        except DatabaseError as error:
            assert "lock timeout" in str(error)  # noqa: PT017  others fail
    raise AssertionError("the table was always in use")
