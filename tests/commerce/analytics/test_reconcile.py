"""`analytics reconcile`, `rebuild`, `fold` and `lag`, and the nightly round."""

import io
from datetime import UTC, date, datetime, timedelta

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from commerce.analytics import reconcile, services, tasks, triggers
from commerce.analytics.models import Books, Entry, Figure, FirstOrder, ProductFigure
from commerce.orders.models import Order
from shared.accounts.models import User
from tests.commerce.analytics.market import Market, assert_right, make_order, make_refund, run_sql
from tests.commerce.reviews.writing import review


def run(command: str) -> str:
    output = io.StringIO()
    call_command("analytics", command, stdout=output)
    return output.getvalue()


def rebuild(now: datetime) -> None:
    while not services.rebuild_some(now=now, most=2).is_complete:
        pass


@pytest.fixture
def sold(market: Market, now: datetime) -> Order:
    """Two complete orders of three shops, with a refund and a review."""
    make_order(market.customers[1], market.products, at=now - timedelta(days=45))
    order = make_order(market.customers[0], market.products, at=now)
    make_refund(order.children.earliest("pk"), 300, at=now)
    review(market.customers[0], market.products[0], rating=5)
    return order


@pytest.mark.parametrize("folded", [False, True], ids=["not folded", "folded"])
def test_right_figures_are_found_right(sold: Order, now: datetime, folded: bool):
    if folded:
        services.fold(now=now)

    assert reconcile.differences() == []
    assert run("reconcile") == "Every figure is right.\n"


def test_each_wrong_figure_is_named(sold: Order, market: Market, now: datetime):
    services.fold(now=now)
    shop = market.shops[0]
    Figure.objects.filter(grain="day", starts_on=now.date(), shop_id=shop.pk, status="complete").update(revenue=7)
    ProductFigure.objects.filter(product_id=market.products[0].pk, shop_id=0).update(stars=4)
    FirstOrder.objects.filter(shop_id=shop.pk, customer_id=market.customers[0].pk).delete()

    customer = market.customers[0].pk
    assert reconcile.differences() == [
        f"day 2026-03-30, shop {shop.pk}, currency EUR, status complete: revenue are told as 7, and are 2500.",
        f"month from 2026-03-01, shop {shop.pk}, currency EUR, status complete: revenue are told as 2500, and are 7.",
        f"all time from 0001-01-01, shop {shop.pk}, currency EUR, status complete: "
        "revenue are told as 5000, and are 2507.",
        f"product {market.products[0].pk}, the platform: stars are told as 4, and are 5.",
        reconcile.differences()[-1],
    ]
    assert reconcile.differences()[-1].startswith(f"shop {shop.pk}, customer {customer}: the first order is told as of")
    with pytest.raises(CommandError) as refused:
        run("reconcile")
    assert refused.value.returncode == 1


def test_a_rebuild_makes_wrong_figures_right(sold: Order, market: Market, now: datetime):
    services.fold(now=now)
    Figure.objects.all().delete()
    ProductFigure.objects.update(units=1)
    FirstOrder.objects.all().delete()
    Entry.objects.all().delete()

    assert run("rebuild") == "Every figure is new.\n"
    assert reconcile.differences() == []
    assert_right(market, now)


def test_a_refund_of_what_raw_sql_put_below_a_part_is_in_a_rebuild(sold: Order, market: Market, now: datetime):
    deep = sold.children.get(shop=market.shops[0])
    deep.pk, deep.tracking_number, deep.parent_id = sold.pk + 1000, "deep", deep.pk
    deep.save(force_insert=True)
    make_refund(deep, 3, at=now)
    rebuild(now)

    assert reconcile.differences() == []


def test_what_is_written_while_a_rebuild_runs_counts_once(sold: Order, market: Market, now: datetime):
    for step in range(40):
        services.rebuild_some(now=now, most=1)
        make_order(market.customers[step % 2], market.products[step % 6 :], at=now - timedelta(days=step))
        if step % 3 == 0:
            Order.objects.filter(pk__gt=sold.pk, pk__lt=sold.pk + step * 2).update(order_status="pending")
        if step % 4 == 0:
            services.fold(now=now)
    rebuild(now)

    assert Books.objects.get().generation == 2
    assert reconcile.differences() == []
    assert_right(market, now)


def test_until_a_rebuild_is_complete_the_figures_of_before_are_told(sold: Order, market: Market, now: datetime):
    for _ in range(3):
        services.rebuild_some(now=now, most=1)

    assert_right(market, now)
    assert Books.objects.get().next_generation == 2
    rebuild(now)
    assert set(Figure.objects.values_list("generation", flat=True)) == {1, 2}
    tasks.keep_up()
    assert set(Figure.objects.values_list("generation", flat=True)) == {2}


def test_another_time_zone_makes_the_figures_anew(sold: Order, market: Market, now: datetime, settings: Settings):
    Order.objects.update(created_at=now.replace(hour=23) - timedelta(days=1))
    services.fold(now=now)
    settings.ANALYTICS_TIME_ZONE = "Asia/Tokyo"
    assert services.needs_rebuild()
    tasks.keep_up()

    assert not services.needs_rebuild()
    assert Books.objects.get().time_zone == "Asia/Tokyo"
    assert reconcile.differences() == []
    assert_right(market, now)


def test_triggers_that_are_gone_are_made_again_and_what_they_missed_is_found(
    sold: Order, market: Market, now: datetime
):
    services.fold(now=now)
    triggers.remove()
    make_order(market.customers[0], market.products, at=now)
    assert not triggers.are_there()
    tasks.keep_up()

    assert triggers.are_there()
    assert_right(market, now)


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["DISABLE", "ENABLE REPLICA"])
def test_a_trigger_that_does_not_fire_is_made_anew(how: str):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite's cannot be disabled")
    run_sql(f"ALTER TABLE {Order._meta.db_table} {how} TRIGGER analytics_order_update")
    assert not triggers.are_there()
    tasks.keep_up()

    assert triggers.are_right()


@pytest.mark.django_db
def test_a_trigger_of_ours_on_a_table_where_it_does_not_belong_goes():
    if connection.vendor != "postgresql":
        pytest.skip("a name is one trigger's in SQLite")
    run_sql(
        f"CREATE TRIGGER analytics_order_update AFTER UPDATE ON {User._meta.db_table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION analytics_order_update()"
    )
    with transaction.atomic():
        triggers.make()

    User.objects.update(name="Oak")
    assert triggers.are_right()


def test_nothing_is_rebuilt_without_need(sold: Order, now: datetime):
    tasks.keep_up()

    assert Books.objects.get().generation == 1
    assert not Entry.objects.exists()


def test_the_lag_is_what_waits(sold: Order, now: datetime):
    waiting = Entry.objects.count()
    assert waiting > 2
    Entry.objects.update(written_at=now - timedelta(seconds=90))
    Entry.objects.filter(pk=Entry.objects.latest("pk").pk).update(written_at=now)
    assert services.measure_lag(now=now) == services.Lag(entries=waiting, seconds=90)  # nothing was ever folded
    assert run("lag") == f"{waiting} entries wait, the oldest for 90 s.\n"

    services.fold_some(now=now, most=waiting - 1)
    assert services.measure_lag(now=now + timedelta(seconds=5)) == services.Lag(entries=1, seconds=5)
    run("fold")
    assert services.measure_lag(now=now) == services.Lag(entries=0, seconds=0)


def test_an_entry_is_as_old_as_what_wrote_it(market: Market):
    """Whatever day it is of; by the database's clock, which no test stops."""
    make_order(market.customers[0], market.products, at=datetime(2020, 1, 1, tzinfo=UTC))

    written_just_now = Entry.objects.filter(written_at__gt=Now() - timedelta(minutes=5), written_at__lte=Now())
    assert written_just_now.count() == Entry.objects.count() > 0


def test_every_night_once_wrong_figures_are_found_and_made_anew(sold: Order, market: Market, now: datetime):
    services.fold(now=now)
    Figure.objects.filter(grain="day").update(revenue=1)
    with time_machine.travel(now.replace(hour=2), tick=False):
        tasks.reconcile()
    assert not services.needs_rebuild()

    with time_machine.travel(now.replace(hour=3), tick=False):
        tasks.reconcile()
        assert services.needs_rebuild()
        tasks.keep_up()
        assert reconcile.differences() == []
        Figure.objects.update(revenue=1)
        tasks.reconcile()  # not again this night
    assert not services.needs_rebuild()
    assert Books.objects.get().reconciled_on == date(2026, 3, 30)


def test_a_second_folder_has_nothing_to_do(sold: Order, now: datetime):
    waiting = Entry.objects.count()
    assert services.fold_some(now=now, most=3) == 3
    assert services.fold(now=now) == waiting - 3
    assert services.fold(now=now) == 0
    assert reconcile.differences() == []
