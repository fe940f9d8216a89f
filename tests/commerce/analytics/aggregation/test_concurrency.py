"""Concurrent writes, aggregation and reads in real transactions: every row counts exactly once."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import NotSupportedError, OperationalError, connection, transaction
from django.utils import timezone

from commerce.analytics import services
from commerce.analytics.aggregation import first_orders, lock
from commerce.analytics.aggregation.batches import aggregate_batch, aggregate_ledger
from commerce.analytics.aggregation.owner_groups import update_next_group
from commerce.analytics.aggregation.rebuild import delete_old_generations, needs_rebuild, rebuild_step
from commerce.analytics.aggregation.reconcile import find_differences
from commerce.analytics.ledger import triggers
from commerce.analytics.models import LedgerEntry, RollupState
from commerce.analytics.reports.date_ranges import last_days
from commerce.analytics.reports.report import open_report
from commerce.analytics.reports.scopes import ReportScope
from commerce.catalog.models import Category
from commerce.orders.models import Order, OrderLine
from shared import transactions
from tests.commerce.analytics.factories import (
    Market,
    assert_analytics_correct,
    delete_order_tree,
    get_json,
    make_market,
    make_order,
    make_refund,
    order_tree_ids,
    run_sql,
)
from tests.commerce.reviews.factories import review

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]


@pytest.fixture
def shared_market(transactional_db: None, running_clock: None, monkeypatch: pytest.MonkeyPatch) -> Market:
    if connection.vendor == "sqlite":  # on a busy machine a writer may keep others waiting for long
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 120)
    return make_market()


def run_concurrently(*calls: Callable[[], Any]) -> None:
    """Run each call in a thread; raise what one of them raises."""
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
    """Write in another transaction, and yield the function that runs `then` and commits it."""
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
    """Wait until some transaction waits for a lock, in PostgreSQL."""
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
    raise AssertionError("no transaction waits for a lock")


def test_transactions_with_an_old_snapshot_may_not_write_orders(shared_market: Market):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite writers always see the newest snapshot")
    order = make_order(shared_market.customers[0], shared_market.products[:1], at=timezone.now(), status="pending")

    def write() -> None:
        with transactions.write_snapshot():
            Order.objects.count()
            with another_transaction(lambda: order.children.update(order_status="complete")) as commit:
                commit()
            Order.objects.filter(pk=order.pk).update(order_status="complete")

    with pytest.raises(NotSupportedError, match="READ COMMITTED"):
        write()
    with transactions.write_snapshot():
        Order.objects.update(customer_contact="0")  # no entry depends on this column
    assert find_differences() == []


def test_concurrent_writes_aggregation_and_reads(shared_market: Market):
    """A read returns everything committed before it began, and nothing begun after it ended."""
    now = timezone.now()
    started: list[int] = []
    committed: list[int] = []

    def write() -> None:
        for number in range(8):
            with transaction.atomic():
                order = make_order(
                    shared_market.customers[number % 2], shared_market.products[number % 6 :], at=now, status="pending"
                )
            started.append(order.total)
            Order.objects.filter(pk__in=order_tree_ids(order)).update(order_status="complete")
            committed.append(order.total)

    def aggregate() -> None:
        for _ in range(12):
            aggregate_batch(now=now, limit=15)

    def rebuild() -> None:
        for _ in range(40):
            rebuild_step(now=now, limit=2)

    results: list[tuple[int, int, int]] = []

    def read() -> None:
        for _ in range(15):
            scope = ReportScope(shop_ids=None, currency="EUR")
            minimum = sum(committed)
            with open_report(scope, now=now) as report:
                revenue = report.totals().revenue
            results.append((minimum, revenue, sum(started)))

    run_concurrently(write, write, write, aggregate, aggregate, rebuild, read, read)

    assert_analytics_correct(shared_market, now)
    aggregate_ledger(now=now)
    assert find_differences() == []
    assert [result for result in results if not result[0] <= result[1] <= result[2]] == []


def test_two_transactions_that_complete_a_parent_and_its_child_both_count(shared_market: Market):
    """Neither change alone earns revenue."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    now = timezone.now()
    for is_child_first in (True, False):
        parent = make_order(shared_market.customers[0], shared_market.products[:1], at=now, status="pending")
        child = parent.children.get()
        first, second = (child, parent) if is_child_first else (parent, child)

        def complete(order: Order) -> None:
            Order.objects.filter(pk=order.pk).update(order_status="complete")

        with another_transaction(lambda first=first: complete(first)) as commit:  # type: ignore[misc]
            waiting = threading.Thread(target=run_concurrently, args=(lambda second=second: complete(second),))
            waiting.start()
            waiting.join(0.5)
            commit()
            waiting.join()

    assert find_differences() == []
    assert_analytics_correct(shared_market, now)


def test_entries_committed_late_are_aggregated_late(shared_market: Market):
    """Their ids are smaller than those of entries that were aggregated before."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    now = timezone.now()
    with another_transaction(lambda: make_order(shared_market.customers[0], shared_market.products, at=now)) as commit:
        make_order(shared_market.customers[1], shared_market.products, at=now)
        aggregate_ledger(now=now)
        rebuild_step(now=now)
        assert not LedgerEntry.objects.exists()
        commit()
    assert LedgerEntry.objects.exists()
    while not rebuild_step(now=now).is_complete:
        pass

    assert find_differences() == []
    assert_analytics_correct(shared_market, now)


def test_entries_aggregated_during_a_read_count_once(shared_market: Market):
    now = timezone.now()
    make_order(shared_market.customers[0], shared_market.products, at=now)
    scope = ReportScope(shop_ids=None, currency="EUR")
    with open_report(scope, now=now) as report:
        before = report.totals()
        run_concurrently(lambda: aggregate_ledger(now=now))
        assert report.series(last_days(1, report.today))[0].revenue == before.revenue
        assert report.totals(last_days(1, report.today)).orders == 1
    assert before.revenue == 6 * 1250 + 490


@pytest.mark.parametrize("path", ["category-wise-product", "category-wise-product-sale"])
def test_a_category_deleted_during_a_read_is_still_returned(shared_market: Market, path: str):
    make_order(shared_market.customers[0], shared_market.products, at=timezone.now())
    before = get_json(shared_market.clients["platform"], path)
    names = f'FROM "{Category._meta.db_table}"'

    def delete() -> None:
        for category in Category.objects.all():
            category.products.clear()
            category.delete()

    def delete_before_names(execute: Any, sql: str, *arguments: Any) -> Any:
        if names in sql:
            run_concurrently(delete)
        return execute(sql, *arguments)

    with connection.execute_wrapper(delete_before_names):
        assert get_json(shared_market.clients["platform"], path) == before
    assert get_json(shared_market.clients["platform"], path) == []


def test_steps_do_nothing_while_the_lock_is_taken(shared_market: Market):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    now = timezone.now()
    make_order(shared_market.customers[0], shared_market.products, at=now)
    with another_transaction(lambda: RollupState.objects.select_for_update().get()):
        assert aggregate_ledger(now=now) == 0
        assert rebuild_step(now=now).is_busy
        assert delete_old_generations() == 0
    assert aggregate_ledger(now=now) > 0


def run_between_snapshot_and_lock(monkeypatch: pytest.MonkeyPatch, write: Callable[[], Any]) -> None:
    """Make the next step take its snapshot, then run `write` in another transaction, then let it lock."""
    lock_state = lock.lock_state

    def late() -> RollupState | None:
        monkeypatch.setattr(lock, "lock_state", lock_state)
        LedgerEntry.objects.count()  # takes the snapshot
        run_concurrently(write)
        return lock_state()

    monkeypatch.setattr(lock, "lock_state", late)


def test_a_rebuild_step_with_an_old_snapshot_is_rolled_back(shared_market: Market, monkeypatch: pytest.MonkeyPatch):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    now = timezone.now()
    make_order(shared_market.customers[0], shared_market.products, at=now)
    rebuild_step(now=now)
    aggregated: list[int] = []
    run_between_snapshot_and_lock(monkeypatch, lambda: aggregated.append(aggregate_ledger(now=now)))
    assert rebuild_step(now=now).is_busy
    assert aggregated[0] > 0
    while not rebuild_step(now=now).is_complete:
        pass
    assert find_differences() == []


def test_aggregation_that_missed_a_new_group_is_rolled_back(shared_market: Market, monkeypatch: pytest.MonkeyPatch):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    now = timezone.now()
    make_order(shared_market.customers[0], shared_market.products, at=now)
    updated: list[bool] = []
    run_between_snapshot_and_lock(monkeypatch, lambda: updated.append(update_next_group()))
    assert aggregate_batch(now=now) == 0
    assert updated == [True]
    assert aggregate_batch(now=now) > 0
    assert find_differences() == []
    assert_analytics_correct(shared_market, now)


def test_orders_placed_while_first_orders_are_recomputed_are_not_included(
    shared_market: Market, monkeypatch: pytest.MonkeyPatch
):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    now = timezone.now()
    customer, products = shared_market.customers[0], shared_market.products[:1]
    first, recompute = make_order(customer, products, at=now), first_orders.recompute
    aggregate_ledger(now=now)
    delete_order_tree(first)
    made = []

    def late(*arguments: Any, **bounds: Any) -> None:
        run_concurrently(lambda: made.append(make_order(customer, products, at=now - timedelta(days=1))))
        recompute(*arguments, **bounds)

    with monkeypatch.context() as patch:
        patch.setattr(first_orders, "recompute", late)
        aggregate_ledger(now=now)
    (second,) = made
    delete_order_tree(second)
    aggregate_ledger(now=now)

    assert find_differences() == []


def test_a_truncated_table_starts_a_rebuild(shared_market: Market):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has no TRUNCATE")
    now = timezone.now()
    make_order(shared_market.customers[0], shared_market.products, at=now)
    aggregate_ledger(now=now)
    run_sql(f"TRUNCATE {Order._meta.db_table} CASCADE")
    assert needs_rebuild()
    services.run_maintenance(now=now)

    assert not needs_rebuild()
    assert_analytics_correct(shared_market, now)


WRITES_OF_TWO_TABLES: dict[str, tuple[Callable[[Market, Order], Any], Callable[[Order], Any]]] = {
    "a review, whose order is checked on commit": (
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
def test_triggers_are_installed_during_writes_without_a_deadlock(shared_market: Market, name: str):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    order = make_order(shared_market.customers[0], shared_market.products[:1], at=timezone.now())
    first, then = WRITES_OF_TWO_TABLES[name]
    changed = LedgerEntry.objects.count()
    with another_transaction(lambda: first(shared_market, order), then=lambda: then(order)) as commit:

        def commit_when_waited_for() -> None:
            wait_for_a_lock()
            commit()

        run_concurrently(transaction.atomic(triggers.install), commit_when_waited_for)
    assert LedgerEntry.objects.count() > changed
    assert triggers.are_current()
    assert find_differences() == []


def test_a_read_sees_one_snapshot_and_takes_no_lock(shared_market: Market):
    now = timezone.now()
    with transactions.read_snapshot():
        before = Order.objects.count()
        run_concurrently(lambda: make_order(shared_market.customers[0], shared_market.products, at=now))
        assert Order.objects.count() == before
    assert Order.objects.count() == before + 4


def test_database_errors_other_than_conflicts_are_raised(shared_market: Market, monkeypatch: pytest.MonkeyPatch):
    def fail() -> RollupState | None:
        raise OperationalError("the disk is full")

    monkeypatch.setattr(lock, "lock_state", fail)
    with pytest.raises(OperationalError):
        rebuild_step(now=timezone.now())


def test_a_flush_leaves_a_correct_state(shared_market: Market):
    assert triggers.are_installed()
    state = RollupState.objects.get()
    assert (state.generation, state.is_stale, state.next_generation) == (1, False, None)
