"""The audit log: append-only in code and database, read and exported by super admins."""

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.test import AsyncClient, Client
from django.utils import timezone

from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user
from shared.audit.models import AppendOnlyError, AuditEntry
from shared.audit.services import record_audit_entry
from shared.audit.triggers import TABLE, check_triggers, create_triggers, missing_triggers, trigger_names
from shared.querysets import ROWS_PER_QUERY

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
LIST = "/admin/audit/auditentry/"


@pytest.fixture
def admin() -> User:
    return create_user(email="admin@example.com", name="A", password=None, role=Role.SUPER_ADMIN, now=timezone.now())


@pytest.fixture
def site(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def entry(actor: User | None = None, target_id: int = 7, **details: Any) -> AuditEntry:
    return record_audit_entry(
        action="moderation.accepted", actor=actor, target_type="Review", target_id=target_id, details=details, now=NOON
    )


def test_an_entry_has_actor_time_action_and_target(admin: User):
    made = entry(admin, comment="Buy elsewhere.")

    stored = AuditEntry.objects.about("Review", 7).get()
    assert stored == made
    assert (stored.actor, stored.at, stored.action, stored.details) == (
        admin,
        NOON,
        "moderation.accepted",
        {"comment": "Buy elsewhere."},
    )


ATTEMPTS: dict[str, Callable[[AuditEntry], Any]] = {
    "save": lambda made: made.save(),
    "delete": lambda made: made.delete(),
    "update": lambda made: AuditEntry.objects.update(action="x"),
    "update by filter": lambda made: AuditEntry.objects.filter(pk=made.pk).update(action="x"),
    "delete by filter": lambda made: AuditEntry.objects.filter(pk=made.pk).delete(),
    "bulk update": lambda made: AuditEntry.objects.bulk_update([made], ["action"]),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_the_model_refuses_changes(attempt: str):
    made = entry()
    with pytest.raises(AppendOnlyError):
        ATTEMPTS[attempt](made)

    assert AuditEntry.objects.get().action == "moderation.accepted"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_auditentry SET action = 'x'",
        "UPDATE audit_auditentry SET details = details",
        "DELETE FROM audit_auditentry",
        "DELETE FROM audit_auditentry WHERE id > 0",
    ],
)
def test_the_database_refuses_changes(statement: str):
    entry()
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)

    assert AuditEntry.objects.get().action == "moderation.accepted"


@pytest.mark.parametrize("statement", [f"TRUNCATE {TABLE}", f"TRUNCATE {User._meta.db_table} CASCADE"])
def test_postgresql_truncates_only_an_empty_log(statement: str):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no TRUNCATE")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    entry()
    connection.check_constraints()  # deferred constraints would fail first
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)

    assert AuditEntry.objects.get().action == "moderation.accepted"


@pytest.mark.parametrize("index", range(3))
def test_a_missing_trigger_is_reported_and_created_again(index: int):
    assert missing_triggers() == []
    assert check_triggers(None, databases=["default"]) == []
    names = sorted(trigger_names(connection))
    name = names[index % len(names)]
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {name}" + (f" ON {TABLE}" if connection.vendor == "postgresql" else ""))

    assert missing_triggers() == [name]
    (warning,) = check_triggers(None, databases=["default"])
    assert (warning.id, name in warning.msg) == ("audit.W001", True)
    create_triggers()
    create_triggers()
    assert missing_triggers() == []


def test_without_the_table_no_trigger_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection.introspection, "table_names", lambda: [MigrationRecorder.Migration._meta.db_table])

    create_triggers()
    assert missing_triggers() == []


def test_an_entry_is_rolled_back_with_its_transaction():
    with transaction.atomic():
        entry()
        transaction.set_rollback(True)

    assert not AuditEntry.objects.exists()


def test_super_admins_read_entries_and_cannot_change_them(site: Client, admin: User):
    made = entry(admin, comment="Buy elsewhere.")

    assert "moderation.accepted" in site.get(LIST).content.decode()
    assert "Buy elsewhere." in site.get(f"{LIST}{made.pk}/change/").content.decode()
    assert site.get(f"{LIST}add/").status_code == 403
    assert site.post(f"{LIST}{made.pk}/change/", {"action": "x"}).status_code == 403
    assert site.post(f"{LIST}{made.pk}/delete/", {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("term", ["4711", "Admin@example.com ", "moderation.accepted"])
def test_entries_are_found_by_target_actor_and_action(site: Client, admin: User, term: str):
    entry(admin, target_id=4711)
    record_audit_entry(
        action="moderation.undone", actor=None, target_type="Review", target_id=4712, details={}, now=NOON
    )

    page = site.get(LIST, {"q": term}).content.decode()
    assert "4711" in page
    assert "4712" not in page
    assert "4712" in site.get(LIST, {"q": " "}).content.decode()


def read(answer: Any) -> str:
    assert answer.status_code == 200
    assert "no-store" in answer.headers["Cache-Control"]
    return b"".join(answer.streaming_content).decode()


def ids_of(*entries: AuditEntry) -> list[int]:
    return [made.pk for made in entries]


def test_selected_entries_are_exported_as_json_lines(site: Client, admin: User):
    first, second, _ = entry(admin, text="Ω\n"), entry(), entry()

    answer = site.post(LIST, {"action": "export_json_lines", "_selected_action": ids_of(first, second)})

    lines = [json.loads(line) for line in read(answer).splitlines()]
    assert [line["id"] for line in lines] == [first.pk, second.pk]
    assert lines[0] == {
        "id": first.pk,
        "at": "2026-05-04T12:00:00+00:00",
        "actor_id": admin.pk,
        "actor_email": "admin@example.com",
        "action": "moderation.accepted",
        "target_type": "Review",
        "target_id": 7,
        "request_id": "",
        "details": {"text": "Ω\n"},
    }
    assert lines[1]["actor_email"] is None


def test_entries_are_exported_as_csv_without_formulas(site: Client, admin: User):
    admin.email = "=cmd@example.com"
    admin.save()
    made = entry(admin, text='He said "no",\nand left.')

    answer = site.post(LIST, {"action": "export_csv", "_selected_action": ids_of(made)})

    (row,) = csv.DictReader(io.StringIO(read(answer), newline=""))
    assert (row["actor_email"], row["target_id"]) == ("'=cmd@example.com", "7")
    assert json.loads(row["details"]) == {"text": 'He said "no",\nand left.'}


@pytest.mark.parametrize("action", ["export_csv", "export_json_lines"])
def test_every_column_is_exported(site: Client, admin: User, action: str):
    exported = read(site.post(LIST, {"action": action, "_selected_action": ids_of(entry(admin))}))

    rows = csv.DictReader(io.StringIO(exported)) if action == "export_csv" else map(json.loads, exported.splitlines())
    assert set(next(rows)) == {field.column for field in AuditEntry._meta.concrete_fields} | {"actor_email"}


def test_csv_has_no_formula_for_semicolon_separated_cells(site: Client, admin: User):
    admin.email = '";=1+1;"@example.com'
    admin.save()
    made = entry(admin, text="Nice;=2+2;")

    exported = read(site.post(LIST, {"action": "export_csv", "_selected_action": ids_of(made)}))

    assert [cell for cell in exported.split(";") if cell.startswith(("=", "+", "-", "@"))] == []
    (row,) = csv.DictReader(io.StringIO(exported, newline=""))
    assert json.loads(row["details"]) == {"text": "Nice;=2+2;"}


def test_export_audit_continues_after_an_id():
    first = entry(target_id=0)
    for number in range(ROWS_PER_QUERY + 1):
        entry(target_id=number + 1)
    output = io.StringIO()
    call_command("export_audit", "--after", str(first.pk), stdout=output)

    assert [json.loads(line)["target_id"] for line in output.getvalue().splitlines()] == [*range(1, ROWS_PER_QUERY + 2)]


@pytest.mark.django_db(transaction=True)
def test_an_asgi_server_streams_the_export(admin: User):
    made, client = entry(), AsyncClient()
    client.force_login(admin)

    async def exported() -> bytes:
        answer: Any = await client.post(LIST, {"action": "export_json_lines", "_selected_action": [made.pk]})
        assert answer.is_async
        return b"".join([chunk async for chunk in answer.streaming_content])

    assert json.loads(async_to_sync(exported)())["id"] == made.pk


def test_both_projects_install_the_audit_app():
    assert "shared.audit" in settings.INSTALLED_APPS


@pytest.mark.parametrize("lookup", ["actor__password__startswith", "actor__token_version", "details__contains"])
def test_x2_entries_cannot_be_filtered_by_passwords(site: Client, admin: User, lookup: str):
    entry(admin)
    assert site.get(LIST, {lookup: "a"}).status_code == 400


@pytest.mark.parametrize("role", [Role.STORE_OWNER, Role.STAFF, Role.CUSTOMER])
def test_x2_only_super_admins_read_entries(role: Role):
    made, client = entry(comment="Buy elsewhere."), Client()
    client.force_login(create_user(email="x@example.com", name="X", password=None, role=role, now=timezone.now()))
    for path in (LIST, f"{LIST}{made.pk}/change/"):
        answer = client.get(path)
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith("/admin/login/")
