"""The ledger adds up, whoever writes at the same time."""

import os
import subprocess
import sys
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.utils import OperationalError

from inference.engine import Usage
from inference.usage import ledger
from inference.usage.ledger import Amount, Buffer, Line
from inference.usage.models import DailyUsage
from inference.usage.services import record_usage
from shared.accounts.models import ApiKey, User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user

NOW = datetime(2026, 3, 1, 23, 59, tzinfo=UTC)

# One of several processes that write the same rows all at once.
WRITER = """
import sys
import django
django.setup()
from datetime import date
from inference.engine import Usage
from inference.usage.ledger import Amount, Buffer, Line
user_id, key_id = map(int, sys.argv[1:3])
buffer = Buffer()
sys.stdin.readline()
for number in range(40):
    for model in ("b", "a", "c"):
        buffer.add(Line(date(2026, 3, 1), user_id, None if number % 2 else key_id, model), Amount(1, Usage(10, 3, 2)))
    buffer.flush()
"""


@pytest.fixture
def user(db: None) -> User:
    return create_user(email="ada@example.com", name="Ada", password=None, role=Role.STAFF, now=NOW)


@pytest.fixture
def key(user: User) -> ApiKey:
    return create_api_key(user=user, name="k", now=NOW)[0]


def rows() -> list[tuple[Any, ...]]:
    named = ("day", "api_key", "model_id", "requests", "prompt_tokens", "cached_tokens", "completion_tokens")
    return list(DailyUsage.objects.order_by("day", "api_key", "model_id").values_list(*named))


def test_what_is_recorded_is_added_to_the_row_of_its_day_key_and_model(user: User, key: ApiKey) -> None:
    told = {"user_id": user.pk, "usage": Usage(10, 5, 4), "now": NOW}
    record_usage(**told, api_key_id=key.pk, model_id="m")
    record_usage(**told, api_key_id=key.pk, model_id="m", requests=7)
    record_usage(**told, api_key_id=key.pk, model_id="n")
    tomorrow = told | {"now": datetime(2026, 3, 2, 0, 1, tzinfo=UTC)}
    record_usage(**tomorrow, api_key_id=key.pk, model_id="m")

    first, second = date(2026, 3, 1), date(2026, 3, 2)
    assert rows() == [
        (first, key.pk, "m", 8, 20, 8, 10),
        (first, key.pk, "n", 1, 10, 4, 5),
        (second, key.pk, "m", 1, 10, 4, 5),
    ]


def test_sessions_are_a_row_of_their_own(user: User) -> None:
    for _ in range(2):
        record_usage(user_id=user.pk, api_key_id=None, model_id="m", usage=Usage(1, 1), now=NOW)
    assert rows() == [(date(2026, 3, 1), None, "m", 2, 2, 0, 2)]


def test_with_the_callers_transaction_the_record_goes(user: User) -> None:
    with transaction.atomic():
        record_usage(user_id=user.pk, api_key_id=None, model_id="m", usage=Usage(1, 1), now=NOW)
        transaction.set_rollback(True)
    assert rows() == []


def test_the_database_refuses_a_second_row_and_more_cached_than_prompt(user: User) -> None:
    counted = {"requests": 1, "prompt_tokens": 1, "cached_tokens": 0, "completion_tokens": 1}
    one = {"day": date(2026, 3, 1), "user": user, "model_id": "m"} | counted
    DailyUsage.objects.create(**one)
    for wrong in ({}, {"model_id": "n", "cached_tokens": 2}):
        with pytest.raises(IntegrityError), transaction.atomic():
            DailyUsage.objects.create(**one | wrong)


def test_what_another_server_tells_may_not_add_up(user: User) -> None:
    record_usage(user_id=user.pk, api_key_id=None, model_id="m" * 300, usage=Usage(3, -4, 9), now=NOW)
    assert rows() == [(date(2026, 3, 1), None, "m" * 255, 1, 3, 3, 0)]


def test_many_lines_are_written_at_once(user: User) -> None:
    buffer = Buffer()
    for number in range(130):
        buffer.add(Line(date(2026, 3, 1), user.pk, None, f"m{number}"), Amount(1, Usage(1, 1)))
    buffer.flush()
    assert DailyUsage.objects.sums() == {
        "requests": 130,
        "prompt_tokens": 130,
        "cached_tokens": 0,
        "completion_tokens": 130,
    }


def test_what_cannot_be_written_now_is_written_later(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer, line = Buffer(), Line(date(2026, 3, 1), user.pk, None, "m")
    buffer.add(line, Amount(1, Usage(1, 1)))
    write = ledger.write

    def locked(amounts: object) -> None:
        buffer.add(line, Amount(1, Usage(2, 2)))  # in the meantime
        raise OperationalError("database is locked")

    monkeypatch.setattr(ledger, "write", locked)
    buffer.flush()
    assert rows() == []
    monkeypatch.setattr(ledger, "write", write)
    for _ in range(2):
        buffer.flush()
    assert rows() == [(date(2026, 3, 1), None, "m", 2, 3, 0, 3)]


@pytest.mark.django_db(transaction=True)
def test_of_processes_that_write_the_same_rows_at_once_nothing_is_lost() -> None:
    user = create_user(email="ada@example.com", name="Ada", password=None, role=Role.STAFF, now=NOW)
    key = create_api_key(user=user, name="k", now=NOW)[0]
    environment = os.environ | {"DATABASE_URL": this_database()}
    command = [sys.executable, "-c", WRITER, str(user.pk), str(key.pk)]
    pipes = {"stdin": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=environment, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    for process in processes:
        process.communicate("go\n", timeout=100)
        assert process.returncode == 0
    day = date(2026, 3, 1)
    expected = [(day, whose, model, 80, 800, 160, 240) for whose in (None, key.pk) for model in ("a", "b", "c")]
    assert sorted(rows(), key=lambda row: (row[1] or 0, row[2])) == expected


def this_database() -> str:
    """The URL of the database that this test has."""
    name = connection.settings_dict["NAME"]
    given = os.environ.get("DATABASE_URL", "")
    return (
        urlunsplit(urlsplit(given)._replace(path=f"/{name}")) if given.startswith("postgres") else f"sqlite:///{name}"
    )
