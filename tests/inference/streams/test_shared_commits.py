"""Writes of several streams that share a commit."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest
from django.contrib.auth.models import Group
from django.db import Error as DatabaseError
from django.db import IntegrityError, OperationalError, connection

from inference.streams.shared_commits import commit

pytestmark = pytest.mark.django_db(transaction=True)


def commit_all(*writes: Callable[[], object]) -> list[object]:
    async def run() -> list[object]:
        return await asyncio.gather(*map(commit, writes), return_exceptions=True)

    return asyncio.run(run())


def test_each_write_returns_its_own_result_or_error():
    def fail_after_writing() -> None:
        Group.objects.create(name="half")
        raise LookupError("nobody knows")

    results = commit_all(
        partial(Group.objects.create, name="one"),
        fail_after_writing,
        partial(Group.objects.create, name="two"),
        partial(Group.objects.create, name="two"),
        partial(Group.objects.create, name="three"),
    )

    kinds = [type(result) for result in results]
    if connection.vendor != "sqlite" and kinds[2] is IntegrityError:  # the second "two" was committed first
        kinds[2:4] = reversed(kinds[2:4])
    assert kinds == [Group, LookupError, Group, IntegrityError, Group]
    assert set(Group.objects.values_list("name", flat=True)) == {"one", "two", "three"}


def test_many_writes_are_all_there_when_they_return():
    results = commit_all(*(partial(Group.objects.create, name=str(number)) for number in range(150)))

    assert all(isinstance(result, Group) for result in results)
    assert Group.objects.count() == 150


@pytest.mark.skipif(connection.vendor != "sqlite", reason="other databases commit side by side")
def test_a_transaction_that_the_database_rolls_back_fails_all_of_its_writes():
    def roll_back() -> None:
        connection.connection.execute("ROLLBACK")  # as SQLite does on a full disk
        raise OperationalError("database or disk is full")

    queued = threading.Event()

    def wait_for_the_others() -> None:
        queued.wait(10)

    async def run() -> list[object]:
        first = asyncio.create_task(commit(wait_for_the_others))
        await asyncio.sleep(0.2)  # it has a commit of its own by now
        writes = [partial(Group.objects.create, name="before"), roll_back, partial(Group.objects.create, name="after")]
        others = [asyncio.create_task(commit(write)) for write in writes]
        asyncio.get_running_loop().call_later(0.1, queued.set)
        return await asyncio.gather(first, *others, return_exceptions=True)

    results = asyncio.run(run())

    assert not Group.objects.exists()
    assert [isinstance(result, DatabaseError) for result in results[1:]] == [True, True, True]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="other databases commit side by side")
def test_a_commit_that_fails_fails_all_of_its_writes_and_the_next_succeeds(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as broken:
        broken.setattr("inference.streams.shared_commits.transaction.atomic", _fail)
        [failed] = commit_all(partial(Group.objects.create, name="lost"))
    [made] = commit_all(partial(Group.objects.create, name="kept"))

    assert isinstance(failed, OSError)
    assert isinstance(made, Group)
    assert list(Group.objects.values_list("name", flat=True)) == ["kept"]


def _fail() -> None:
    raise OSError("disk full")
