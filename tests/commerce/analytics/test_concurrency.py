"""Many at once, in real transactions: nothing is counted twice or lost, and nobody waits for a hot row."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import NotSupportedError, OperationalError, connection, transaction
from django.utils import timezone

from commerce.analytics import folding, reconcile, reports, scopes, services, triggers
from commerce.analytics.calendars import last_days
from commerce.analytics.models import Books, Entry
from commerce.catalog.models import Category
from commerce.orders.models import Order, OrderLine
from shared.api import snapshots
from tests.commerce.analytics.market import (
    Market,
    assert_right,
    delete_tree,
    make_market,
    make_order,
    make_refund,
    run_sql,
    told,
    whole,
)
from tests.commerce.reviews.writing import review

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]


@pytest.fixture
def crowd(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Market:
    if connection.vendor == "sqlite":  # on a busy machine the one who writes may keep the others waiting for long
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 120)
    return make_market()


def at_once(*calls: Callable[[], Any]) -> None:
    """Each in a thread of its own; what one raises is raised."""
    raised: list[BaseException] = []

    def run(call: Callable[[], Any]) -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


@contextmanager
def another_transaction(
    write: Callable[[], Any], then: Callable[[], Any] = lambda: None
) -> Iterator[Callable[[], None]]:
    """Somebody else has written, and writes the rest and commits when the function is called."""
    written, may_commit = threading.Event(), threading.Event()

    def run() -> None:
        try:
            with transaction.atomic():
                write()
                written.set()
                assert may_commit.wait(60)
                then()
        finally:
            written.set()
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert written.wait(60)

    def commit() -> None:
        may_commit.set()
        thread.join()

    try:
        yield commit
    finally:
        commit()


def wait_for_a_lock() -> None:
    """Until somebody waits for one, in PostgreSQL."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database "
                "WHERE datname = current_database() AND NOT granted"
            )
            if cursor.fetchone() != (0,):
                return
        time.sleep(0.01)
    raise AssertionError("nobody waits for a lock")


def test_who_sees_an_earlier_moment_may_not_write_orders(crowd: Market):
    if connection.vendor == "sqlite":
        pytest.skip("Who writes to SQLite sees the newest moment.")
    order = make_order(crowd.customers[0], crowd.products[:1], at=timezone.now(), status="pending")

    def write() -> None:
        with snapshots.write():
            Order.objects.count()
            with another_transaction(lambda: order.children.update(order_status="complete")) as commit:
                commit()
            Order.objects.filter(pk=order.pk).update(order_status="complete")

    with pytest.raises(NotSupportedError, match="READ COMMITTED"):
        write()
    with snapshots.write():
        Order.objects.update(customer_contact="0")  # counts for nothing
    assert reconcile.differences() == []


def test_writers_folders_and_readers_at_once(crowd: Market):
    """Each reader is told what was committed before it asked, and nothing that had not begun when it was answered."""
    now = timezone.now()
    begun: list[int] = []
    committed: list[int] = []

    def write() -> None:
        for number in range(8):
            with transaction.atomic():
                order = make_order(crowd.customers[number % 2], crowd.products[number % 6 :], at=now, status="pending")
            begun.append(order.total)
            Order.objects.filter(pk__in=whole(order)).update(order_status="complete")
            committed.append(order.total)

    def fold() -> None:
        for _ in range(12):
            services.fold_some(now=now, most=15)

    def rebuild() -> None:
        for _ in range(40):
            services.rebuild_some(now=now, most=2)

    answers: list[tuple[int, int, int]] = []

    def read() -> None:
        for _ in range(15):
            scope = scopes.Scope(shop_ids=None, currency="EUR")
            least = sum(committed)
            with reports.opened(scope, now=now) as report:
                revenue = report.sums().revenue
            answers.append((least, revenue, sum(begun)))

    at_once(write, write, write, fold, fold, rebuild, read, read)

    assert_right(crowd, now)
    services.fold(now=now)
    assert reconcile.differences() == []
    assert [answer for answer in answers if not answer[0] <= answer[1] <= answer[2]] == []


def test_two_transactions_that_complete_a_part_and_its_parent_both_count(crowd: Market):
    """Each of them alone earns nothing."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    now = timezone.now()
    for is_part_first in (True, False):
        parent = make_order(crowd.customers[0], crowd.products[:1], at=now, status="pending")
        part = parent.children.get()
        first, second = (part, parent) if is_part_first else (parent, part)

        def complete(order: Order) -> None:
            Order.objects.filter(pk=order.pk).update(order_status="complete")

        with another_transaction(lambda first=first: complete(first)) as commit:  # type: ignore[misc]
            waiting = threading.Thread(target=at_once, args=(lambda second=second: complete(second),))
            waiting.start()
            waiting.join(0.5)
            commit()
            waiting.join()

    assert reconcile.differences() == []
    assert_right(crowd, now)


def test_what_commits_late_is_folded_late(crowd: Market):
    """Its entries have smaller numbers than some that were folded before."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    now = timezone.now()
    with another_transaction(lambda: make_order(crowd.customers[0], crowd.products, at=now)) as commit:
        make_order(crowd.customers[1], crowd.products, at=now)
        services.fold(now=now)
        services.rebuild_some(now=now)
        assert not Entry.objects.exists()
        commit()
    assert Entry.objects.exists()
    while not services.rebuild_some(now=now).is_complete:
        pass

    assert reconcile.differences() == []
    assert_right(crowd, now)


def test_what_is_folded_while_somebody_reads_is_told_once(crowd: Market):
    now = timezone.now()
    make_order(crowd.customers[0], crowd.products, at=now)
    scope = scopes.Scope(shop_ids=None, currency="EUR")
    with reports.opened(scope, now=now) as report:
        before = report.sums()
        at_once(lambda: services.fold(now=now))
        assert report.series(last_days(1, report.today))[0].revenue == before.revenue
        assert report.sums(last_days(1, report.today)).orders == 1
    assert before.revenue == 6 * 1250 + 490


@pytest.mark.parametrize("path", ["category-wise-product", "category-wise-product-sale"])
def test_a_category_that_goes_while_its_rows_are_read_is_told_as_it_was(crowd: Market, path: str):
    make_order(crowd.customers[0], crowd.products, at=timezone.now())
    before = told(crowd.clients["platform"], path)
    names = f'FROM "{Category._meta.db_table}"'

    def delete() -> None:
        for category in Category.objects.all():
            category.products.clear()
            category.delete()

    def delete_before_the_names(execute: Any, sql: str, *words: Any) -> Any:
        if names in sql:
            at_once(delete)
        return execute(sql, *words)

    with connection.execute_wrapper(delete_before_the_names):
        assert told(crowd.clients["platform"], path) == before
    assert told(crowd.clients["platform"], path) == []


def test_who_finds_the_lock_taken_has_nothing_to_do(crowd: Market):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    now = timezone.now()
    make_order(crowd.customers[0], crowd.products, at=now)
    with another_transaction(lambda: Books.objects.select_for_update().get()):
        assert services.fold(now=now) == 0
        assert services.rebuild_some(now=now).is_busy
        assert services.clear_some() == 0
    assert services.fold(now=now) > 0


def between_look_and_lock(monkeypatch: pytest.MonkeyPatch, write: Callable[[], Any]) -> None:
    """The next step takes its snapshot, somebody else does this, and then the step asks for its lock."""
    locked = services._locked

    def late() -> Books | None:
        monkeypatch.setattr(services, "_locked", locked)
        Entry.objects.count()  # the snapshot is taken
        at_once(write)
        return locked()

    monkeypatch.setattr(services, "_locked", late)


def test_a_step_of_a_rebuild_that_came_too_late_is_undone(crowd: Market, monkeypatch: pytest.MonkeyPatch):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    now = timezone.now()
    make_order(crowd.customers[0], crowd.products, at=now)
    services.rebuild_some(now=now)
    folded: list[int] = []
    between_look_and_lock(monkeypatch, lambda: folded.append(services.fold(now=now)))
    assert services.rebuild_some(now=now).is_busy
    assert folded[0] > 0
    while not services.rebuild_some(now=now).is_complete:
        pass
    assert reconcile.differences() == []


def test_a_fold_that_came_too_late_to_know_of_a_chain_is_undone(crowd: Market, monkeypatch: pytest.MonkeyPatch):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    now = timezone.now()
    make_order(crowd.customers[0], crowd.products, at=now)
    made: list[bool] = []
    between_look_and_lock(monkeypatch, lambda: made.append(services.make_chain()))
    assert services.fold_some(now=now) == 0
    assert made == [True]
    assert services.fold_some(now=now) > 0
    assert reconcile.differences() == []
    assert_right(crowd, now)


def test_what_is_ordered_while_a_fold_looks_up_who_lost_orders_is_not_in_it(
    crowd: Market, monkeypatch: pytest.MonkeyPatch
):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    now = timezone.now()
    customer, products = crowd.customers[0], crowd.products[:1]
    first, find = make_order(customer, products, at=now), folding._find_again
    services.fold(now=now)
    delete_tree(first)
    made = []

    def late(*words: Any) -> None:
        at_once(lambda: made.append(make_order(customer, products, at=now - timedelta(days=1))))
        find(*words)

    with monkeypatch.context() as patch:
        patch.setattr(folding, "_find_again", late)
        services.fold(now=now)
    (second,) = made
    delete_tree(second)
    services.fold(now=now)

    assert reconcile.differences() == []


def test_a_truncated_table_is_noticed(crowd: Market):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has no TRUNCATE")
    now = timezone.now()
    make_order(crowd.customers[0], crowd.products, at=now)
    services.fold(now=now)
    run_sql(f"TRUNCATE {Order._meta.db_table} CASCADE")
    assert services.needs_rebuild()
    services.keep_up(now=now)

    assert not services.needs_rebuild()
    assert_right(crowd, now)


WRITES_OF_TWO_TABLES: dict[str, tuple[Callable[[Market, Order], Any], Callable[[Order], Any]]] = {
    "a review, whose order is looked at in the end": (
        lambda market, order: review(market.customers[0], market.products[0], rating=4),
        lambda order: None,
    ),
    "a refund, then its order": (
        lambda market, order: make_refund(order, 100, at=timezone.now()),
        lambda order: Order.objects.filter(pk=order.pk).update(order_status="refunded"),
    ),
    "an order, then its lines": (
        lambda market, order: Order.objects.filter(pk=order.pk).update(order_status="processing"),
        lambda order: OrderLine.objects.filter(order__parent=order).delete(),
    ),
}


@pytest.mark.parametrize("name", WRITES_OF_TWO_TABLES)
def test_triggers_are_made_anew_while_somebody_writes(crowd: Market, name: str):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    order = make_order(crowd.customers[0], crowd.products[:1], at=timezone.now())
    first, then = WRITES_OF_TWO_TABLES[name]
    changed = Entry.objects.count()
    with another_transaction(lambda: first(crowd, order), then=lambda: then(order)) as commit:

        def commit_once_it_is_waited_for() -> None:
            wait_for_a_lock()
            commit()

        at_once(transaction.atomic(triggers.make), commit_once_it_is_waited_for)
    assert Entry.objects.count() > changed
    assert triggers.are_right()
    assert reconcile.differences() == []


def test_a_reader_sees_one_moment_and_takes_no_lock(crowd: Market):
    now = timezone.now()
    with snapshots.read():
        before = Order.objects.count()
        at_once(lambda: make_order(crowd.customers[0], crowd.products, at=now))
        assert Order.objects.count() == before
    assert Order.objects.count() == before + 4


def test_an_error_of_the_database_that_is_no_conflict_is_raised(crowd: Market, monkeypatch: pytest.MonkeyPatch):
    def fail() -> Books | None:
        raise OperationalError("the disk is full")

    monkeypatch.setattr(services, "_locked", fail)
    with pytest.raises(OperationalError):
        services.rebuild_some(now=timezone.now())


def test_a_flush_leaves_books_that_are_right(crowd: Market):
    assert triggers.are_there()
    books = Books.objects.get()
    assert (books.generation, books.is_stale, books.next_generation) == (1, False, None)
