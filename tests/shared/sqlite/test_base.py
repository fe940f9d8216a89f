"""Start of transactions on SQLite while another one writes."""

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import Error, OperationalError, connection, transaction
from django.db.backends.sqlite3.base import SQLiteCursorWrapper

from shared.accounts.models import User
from shared.sqlite.base import fail_if_locked
from tests.shared.accounts.conftest import make_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def on_sqlite() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("of SQLite alone")


@pytest.fixture
def held_lock() -> Iterator[threading.Event]:
    """Hold the write lock in another connection until the event is set."""
    holding, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            make_user()
            holding.set()
            may_end.wait(60)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(60)
    yield may_end
    may_end.set()
    thread.join()


def test_d1_a_waiting_writer_leaves_no_cursor_for_the_garbage_collector(
    held_lock: threading.Event,
) -> None:
    """If the writing thread collected a cursor of a waiting connection, each would wait for the other."""
    connection.ensure_connection()
    gc.collect()
    gc.disable()
    try:
        before = sum(type(one) is SQLiteCursorWrapper for one in gc.get_objects())
        threading.Timer(0.3, held_lock.set).start()
        with transaction.atomic():
            assert held_lock.is_set()
        assert sum(type(one) is SQLiteCursorWrapper for one in gc.get_objects()) == before
    finally:
        gc.enable()


def test_d2_a_writer_that_waits_too_long_gets_an_error(
    held_lock: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 0.2)
    started = time.monotonic()
    with pytest.raises(OperationalError, match="database is locked"), transaction.atomic():
        pass
    assert time.monotonic() - started >= 0.2
    held_lock.set()


def test_d2_a_writer_that_must_not_wait_gets_an_error_at_once(
    held_lock: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 60)
    started = time.monotonic()
    with pytest.raises(OperationalError, match="database is locked"), fail_if_locked(), transaction.atomic():
        pass
    assert time.monotonic() - started < 30
    threading.Timer(0.3, held_lock.set).start()
    with transaction.atomic():  # it waits again
        assert held_lock.is_set()


def test_d2_waiting_writers_are_served_in_order(held_lock: threading.Event) -> None:
    wrote: list[int] = []
    asks = threading.Semaphore(0)

    def write(number: int) -> None:
        connection.ensure_connection()
        asks.release()
        with transaction.atomic():
            wrote.append(number)
            time.sleep(0.02)  # long enough for all others to ask meanwhile
        connection.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
        asks.acquire()
        time.sleep(0.1)  # until it waits
    held_lock.set()
    for thread in threads:
        thread.join()
    assert wrote == list(range(8))


@pytest.fixture
def waits_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.sqlite.base.MAX_YIELD_SECONDS", 60.0)


def test_d2_other_threads_pause_for_a_short_transaction(waits_for_long: None, held_lock: threading.Event) -> None:
    threading.Timer(0.3, held_lock.set).start()
    User.objects.count()
    assert held_lock.is_set()
    started = time.monotonic()
    User.objects.count()
    assert time.monotonic() - started < 30


def test_d2_other_threads_do_not_pause_for_a_long_transaction(held_lock: threading.Event) -> None:
    started = time.monotonic()
    for _ in range(1000):
        User.objects.count()
    assert time.monotonic() - started < 30
    assert not held_lock.is_set()


@pytest.mark.parametrize("end", [transaction.set_rollback, lambda _: connection.close()], ids=["rollback", "close"])
def test_d2_other_threads_do_not_pause_for_an_abandoned_transaction(
    waits_for_long: None, end: Callable[[bool], None]
) -> None:
    given_up, looked = threading.Event(), threading.Event()

    def give_up() -> None:
        with contextlib.suppress(Error), transaction.atomic():
            make_user()
            end(True)
        given_up.set()
        looked.wait(60)
        connection.close()

    thread = threading.Thread(target=give_up)
    thread.start()
    assert given_up.wait(60)
    started = time.monotonic()
    assert not User.objects.exists()
    assert time.monotonic() - started < 30
    looked.set()
    thread.join()


def test_d2_a_thread_that_ends_within_a_transaction_blocks_no_writer() -> None:
    def begin() -> None:
        transaction.atomic().__enter__()
        make_user()

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    gc.collect()
    make_user()
    assert User.objects.count() == 1
