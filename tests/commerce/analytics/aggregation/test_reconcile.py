"""Reconciliation and rebuilds, by the management command and by the periodic tasks."""

import io
from datetime import UTC, date, datetime, timedelta

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from commerce.analytics import tasks
from commerce.analytics.aggregation.batches import LedgerLag, aggregate_batch, aggregate_ledger, measure_lag
from commerce.analytics.aggregation.rebuild import needs_rebuild, rebuild_step
from commerce.analytics.aggregation.reconcile import find_differences
from commerce.analytics.ledger import triggers
from commerce.analytics.models import FirstOrder, LedgerEntry, PeriodRollup, ProductRollup, RollupState
from commerce.orders.models import Order
from shared.accounts.models import User
from tests.commerce.analytics.factories import Market, assert_analytics_correct, make_order, make_refund, run_sql
from tests.commerce.reviews.factories import review


def run(command: str) -> str:
    output = io.StringIO()
    call_command("analytics", command, stdout=output)
    return output.getvalue()


def rebuild(now: datetime) -> None:
    while not rebuild_step(now=now, limit=2).is_complete:
        pass


@pytest.fixture
def order(market: Market, now: datetime) -> Order:
    """Return the newer of two complete orders from three shops, with a refund and a review."""
    make_order(market.customers[1], market.products, at=now - timedelta(days=45))
    order = make_order(market.customers[0], market.products, at=now)
    make_refund(order.children.earliest("pk"), 300, at=now)
    review(market.customers[0], market.products[0], rating=5)
    return order


@pytest.mark.parametrize("is_aggregated", [False, True], ids=["waiting", "aggregated"])
def test_correct_rollups_have_no_differences(order: Order, now: datetime, is_aggregated: bool):
    if is_aggregated:
        aggregate_ledger(now=now)

    assert find_differences() == []
    assert run("reconcile") == "All rollups match the shop's tables.\n"


@pytest.mark.parametrize(("time_zone", "day"), [("Etc/GMT-14", 31), ("Etc/GMT+11", 29), ("Pacific/Kiritimati", 31)])
@pytest.mark.parametrize("is_aggregated", [False, True], ids=["waiting", "aggregated"])
def test_days_are_those_of_the_time_zone(
    order: Order, now: datetime, settings: Settings, time_zone: str, day: int, is_aggregated: bool
):
    settings.ANALYTICS_TIME_ZONE = time_zone
    rebuild(now)
    User.objects.filter(pk=order.customer_id).update(created_at=now)
    if is_aggregated:
        aggregate_ledger(now=now)

    assert find_differences() == []
    days = PeriodRollup.objects.filter(grain="day", generation=2, shop_id=0, status="complete").values_list("starts_on")
    assert days.latest("starts_on") == (date(2026, 3, day),)


def test_each_wrong_value_is_reported(order: Order, market: Market, now: datetime):
    aggregate_ledger(now=now)
    shop = market.shops[0]
    PeriodRollup.objects.filter(grain="day", starts_on=now.date(), shop_id=shop.pk, status="complete").update(revenue=7)
    ProductRollup.objects.filter(product_id=market.products[0].pk, shop_id=0).update(stars=4)
    FirstOrder.objects.filter(shop_id=shop.pk, customer_id=market.customers[0].pk).delete()

    customer = market.customers[0].pk
    assert find_differences() == [
        f"day 2026-03-30, shop {shop.pk}, currency EUR, status complete: revenue is 7, expected 2500.",
        f"month from 2026-03-01, shop {shop.pk}, currency EUR, status complete: revenue is 2500, expected 7.",
        f"all time from 0001-01-01, shop {shop.pk}, currency EUR, status complete: revenue is 5000, expected 2507.",
        f"product {market.products[0].pk}, the platform: stars is 4, expected 5.",
        find_differences()[-1],
    ]
    assert find_differences()[-1].startswith(f"shop {shop.pk}, customer {customer}: first order is at")
    with pytest.raises(CommandError) as failure:
        run("reconcile")
    assert failure.value.returncode == 1


def test_a_rebuild_corrects_wrong_rollups(order: Order, market: Market, now: datetime):
    aggregate_ledger(now=now)
    PeriodRollup.objects.all().delete()
    ProductRollup.objects.update(units=1)
    FirstOrder.objects.all().delete()
    LedgerEntry.objects.all().delete()

    assert run("rebuild") == "Rebuilt all rollups.\n"
    assert find_differences() == []
    assert_analytics_correct(market, now)


def test_a_rebuild_counts_refunds_of_orders_nested_three_levels_deep(order: Order, market: Market, now: datetime):
    deep = order.children.get(shop=market.shops[0])
    deep.pk, deep.tracking_number, deep.parent_id = order.pk + 1000, "deep", deep.pk
    deep.save(force_insert=True)
    make_refund(deep, 3, at=now)
    rebuild(now)

    assert find_differences() == []


def test_writes_during_a_rebuild_count_once(order: Order, market: Market, now: datetime):
    for step in range(40):
        rebuild_step(now=now, limit=1)
        make_order(market.customers[step % 2], market.products[step % 6 :], at=now - timedelta(days=step))
        if step % 3 == 0:
            Order.objects.filter(pk__gt=order.pk, pk__lt=order.pk + step * 2).update(order_status="pending")
        if step % 4 == 0:
            aggregate_ledger(now=now)
    rebuild(now)

    assert RollupState.objects.get().generation == 2
    assert find_differences() == []
    assert_analytics_correct(market, now)


def test_reads_use_the_old_generation_until_a_rebuild_is_complete(order: Order, market: Market, now: datetime):
    for _ in range(3):
        rebuild_step(now=now, limit=1)

    assert_analytics_correct(market, now)
    assert RollupState.objects.get().next_generation == 2
    rebuild(now)
    assert set(PeriodRollup.objects.values_list("generation", flat=True)) == {1, 2}
    tasks.run_maintenance()
    assert set(PeriodRollup.objects.values_list("generation", flat=True)) == {2}


def test_a_changed_time_zone_rebuilds_the_rollups(order: Order, market: Market, now: datetime, settings: Settings):
    Order.objects.update(created_at=now.replace(hour=23) - timedelta(days=1))
    aggregate_ledger(now=now)
    settings.ANALYTICS_TIME_ZONE = "Asia/Tokyo"
    assert needs_rebuild()
    tasks.run_maintenance()

    assert not needs_rebuild()
    assert RollupState.objects.get().time_zone == "Asia/Tokyo"
    assert find_differences() == []
    assert_analytics_correct(market, now)


def test_missing_triggers_are_installed_and_missed_writes_counted(order: Order, market: Market, now: datetime):
    aggregate_ledger(now=now)
    triggers.remove()
    make_order(market.customers[0], market.products, at=now)
    assert not triggers.are_installed()
    tasks.run_maintenance()

    assert triggers.are_installed()
    assert_analytics_correct(market, now)


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["DISABLE", "ENABLE REPLICA"])
def test_a_disabled_trigger_is_installed_again(how: str):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite's cannot be disabled")
    run_sql(f"ALTER TABLE {Order._meta.db_table} {how} TRIGGER analytics_order_update")
    assert not triggers.are_installed()
    tasks.run_maintenance()

    assert triggers.are_current()


@pytest.mark.django_db
def test_installing_drops_our_trigger_from_a_wrong_table():
    if connection.vendor != "postgresql":
        pytest.skip("a name is one trigger's in SQLite")
    run_sql(
        f"CREATE TRIGGER analytics_order_update AFTER UPDATE ON {User._meta.db_table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION analytics_order_update()"
    )
    with transaction.atomic():
        triggers.install()

    User.objects.update(name="Oak")
    assert triggers.are_current()


def test_nothing_is_rebuilt_needlessly(order: Order, now: datetime):
    tasks.run_maintenance()

    assert RollupState.objects.get().generation == 1
    assert not LedgerEntry.objects.exists()


def test_the_lag_measures_waiting_entries(order: Order, now: datetime):
    waiting = LedgerEntry.objects.count()
    assert waiting > 2
    LedgerEntry.objects.update(written_at=now - timedelta(seconds=90))
    LedgerEntry.objects.filter(pk=LedgerEntry.objects.latest("pk").pk).update(written_at=now)
    assert measure_lag(now=now) == LedgerLag(entries=waiting, seconds=90)  # nothing was aggregated before
    assert run("lag") == f"{waiting} ledger entries wait for aggregation, the oldest for 90 s.\n"

    aggregate_batch(now=now, limit=waiting - 1)
    assert measure_lag(now=now + timedelta(seconds=5)) == LedgerLag(entries=1, seconds=5)
    run("aggregate")
    assert measure_lag(now=now) == LedgerLag(entries=0, seconds=0)


def test_the_age_of_an_entry_is_that_of_its_write(market: Market):
    """It is measured by the database's clock, whatever the day of the order."""
    make_order(market.customers[0], market.products, at=datetime(2020, 1, 1, tzinfo=UTC))

    recently_written = LedgerEntry.objects.filter(written_at__gt=Now() - timedelta(minutes=5), written_at__lte=Now())
    assert recently_written.count() == LedgerEntry.objects.count() > 0


def test_wrong_rollups_are_found_once_a_night_and_rebuilt(order: Order, market: Market, now: datetime):
    aggregate_ledger(now=now)
    PeriodRollup.objects.filter(grain="day").update(revenue=1)
    with time_machine.travel(now.replace(hour=2), tick=False):
        tasks.reconcile_nightly()
    assert not needs_rebuild()

    with time_machine.travel(now.replace(hour=3), tick=False):
        tasks.reconcile_nightly()
        assert needs_rebuild()
        tasks.run_maintenance()
        assert find_differences() == []
        PeriodRollup.objects.update(revenue=1)
        tasks.reconcile_nightly()  # runs once a night
    assert not needs_rebuild()
    assert RollupState.objects.get().reconciled_on == date(2026, 3, 30)


def test_aggregating_twice_finds_nothing_the_second_time(order: Order, now: datetime):
    waiting = LedgerEntry.objects.count()
    assert aggregate_batch(now=now, limit=3) == 3
    assert aggregate_ledger(now=now) == waiting - 3
    assert aggregate_ledger(now=now) == 0
    assert find_differences() == []
