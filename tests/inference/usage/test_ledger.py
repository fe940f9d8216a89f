"""The usage ledger: sums, constraints, and concurrent writers."""

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
from inference.usage.ledger import LedgerAmount, LedgerBuffer, LedgerKey
from inference.usage.models import DailyUsage
from inference.usage.services import record_usage
from shared.accounts.models import ApiKey, User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user

NOW = datetime(2026, 3, 1, 23, 59, tzinfo=UTC)

# One of several processes that write the same rows concurrently.
WRITER = """
import sys
import django
django.setup()
from datetime import date
from inference.engine import Usage
from inference.usage.ledger import LedgerAmount, LedgerBuffer, LedgerKey
user_id, key_id = map(int, sys.argv[1:3])
buffer = LedgerBuffer()
sys.stdin.readline()
for number in range(40):
    for model in ("b", "a", "c"):
        key = LedgerKey(date(2026, 3, 1), user_id, None if number % 2 else key_id, model)
        buffer.add(key, LedgerAmount(1, Usage(10, 3, 2)))
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


def test_usage_is_added_to_the_row_of_its_day_key_and_model(user: User, key: ApiKey) -> None:
    call = {"user_id": user.pk, "usage": Usage(10, 5, 4), "now": NOW}
    record_usage(**call, api_key_id=key.pk, model_id="m")
    record_usage(**call, api_key_id=key.pk, model_id="m", requests=7)
    record_usage(**call, api_key_id=key.pk, model_id="n")
    tomorrow = call | {"now": datetime(2026, 3, 2, 0, 1, tzinfo=UTC)}
    record_usage(**tomorrow, api_key_id=key.pk, model_id="m")

    first, second = date(2026, 3, 1), date(2026, 3, 2)
    assert rows() == [
        (first, key.pk, "m", 8, 20, 8, 10),
        (first, key.pk, "n", 1, 10, 4, 5),
        (second, key.pk, "m", 1, 10, 4, 5),
    ]


def test_sessions_have_a_separate_row(user: User) -> None:
    for _ in range(2):
        record_usage(user_id=user.pk, api_key_id=None, model_id="m", usage=Usage(1, 1), now=NOW)
    assert rows() == [(date(2026, 3, 1), None, "m", 2, 2, 0, 2)]


def test_usage_is_rolled_back_with_the_callers_transaction(user: User) -> None:
    with transaction.atomic():
        record_usage(user_id=user.pk, api_key_id=None, model_id="m", usage=Usage(1, 1), now=NOW)
        transaction.set_rollback(True)
    assert rows() == []


def test_the_database_rejects_duplicate_rows_and_more_cached_than_prompt_tokens(user: User) -> None:
    counted = {"requests": 1, "prompt_tokens": 1, "cached_tokens": 0, "completion_tokens": 1}
    one = {"day": date(2026, 3, 1), "user": user, "model_id": "m"} | counted
    DailyUsage.objects.create(**one)
    for wrong in ({}, {"model_id": "n", "cached_tokens": 2}):
        with pytest.raises(IntegrityError), transaction.atomic():
            DailyUsage.objects.create(**one | wrong)


def test_inconsistent_usage_of_a_remote_server_is_corrected(user: User) -> None:
    record_usage(user_id=user.pk, api_key_id=None, model_id="m" * 300, usage=Usage(3, -4, 9), now=NOW)
    assert rows() == [(date(2026, 3, 1), None, "m" * 255, 1, 3, 3, 0)]


def test_many_rows_are_written_in_one_flush(user: User) -> None:
    buffer = LedgerBuffer()
    for number in range(130):
        buffer.add(LedgerKey(date(2026, 3, 1), user.pk, None, f"m{number}"), LedgerAmount(1, Usage(1, 1)))
    buffer.flush()
    assert DailyUsage.objects.sums() == {
        "requests": 130,
        "prompt_tokens": 130,
        "cached_tokens": 0,
        "completion_tokens": 130,
    }


def test_usage_stays_buffered_until_the_database_accepts_it(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer, key = LedgerBuffer(), LedgerKey(date(2026, 3, 1), user.pk, None, "m")
    buffer.add(key, LedgerAmount(1, Usage(1, 1)))
    add_to_ledger = ledger.add_to_ledger

    def locked(amounts: object) -> None:
        buffer.add(key, LedgerAmount(1, Usage(2, 2)))  # a request that ends meanwhile
        raise OperationalError("database is locked")

    monkeypatch.setattr(ledger, "add_to_ledger", locked)
    buffer.flush()
    assert rows() == []
    monkeypatch.setattr(ledger, "add_to_ledger", add_to_ledger)
    for _ in range(2):
        buffer.flush()
    assert rows() == [(date(2026, 3, 1), None, "m", 2, 3, 0, 3)]


@pytest.mark.django_db(transaction=True)
def test_concurrent_processes_lose_no_usage() -> None:
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
    expected = [(day, key_id, model, 80, 800, 160, 240) for key_id in (None, key.pk) for model in ("a", "b", "c")]
    assert sorted(rows(), key=lambda row: (row[1] or 0, row[2])) == expected


def this_database() -> str:
    """Return the URL of this test's database."""
    name = connection.settings_dict["NAME"]
    given = os.environ.get("DATABASE_URL", "")
    return (
        urlunsplit(urlsplit(given)._replace(path=f"/{name}")) if given.startswith("postgres") else f"sqlite:///{name}"
    )
