"""Migrations rebuild tables, and the triggers are there again afterwards."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection, models
from django.utils import timezone
from environ import Env

from commerce.analytics import contributions, migrating, reconcile, services, triggers
from commerce.analytics.models import Books, Entry
from commerce.config.settings.zones import time_zone
from commerce.orders.models import Order
from tests.commerce.analytics.market import assert_right, make_market, make_order

A_PLAN: list[Any] = [("a migration", False)]


def widen(length: int) -> None:
    """As a migration does: SQLite makes a new table and drops the old one."""
    old = Order._meta.get_field("payment_gateway")
    new: Any = models.CharField(max_length=length)
    new.set_attributes_from_name("payment_gateway")
    new.model = Order
    with connection.schema_editor() as editor:
        editor.alter_field(Order, old, new, strict=True)


@pytest.mark.django_db(transaction=True)
def test_a_table_that_a_migration_rebuilds_has_its_triggers_again():
    market, now = make_market(), timezone.now()
    make_order(market.customers[0], market.products, at=now)
    services.fold(now=now)
    migrating.before(using="default", plan=A_PLAN)
    widen(65)
    order = make_order(market.customers[1], market.products[:2], at=now)  # as another process may meanwhile
    services.keep_up(now=timezone.now())  # and its rounds
    widen(64)
    migrating.after(using="default")

    assert triggers.are_right()
    assert Books.objects.get().is_stale == (connection.vendor == "sqlite")
    services.keep_up(now=timezone.now())
    Order.objects.filter(pk=order.pk).update(order_status="pending")
    assert reconcile.differences() == []
    assert_right(market, now)


@pytest.mark.django_db
def test_migrating_nothing_leaves_the_triggers_where_they_are():
    migrating.before(using="default", plan=[])

    assert triggers.are_there()


@pytest.mark.django_db
def test_another_database_is_left_alone():
    migrating.before(using="another", plan=A_PLAN)
    migrating.after(using="another")

    assert triggers.are_there()


@pytest.mark.django_db
def test_a_shop_that_had_orders_before_the_ledger_is_counted():
    market, now = make_market(), timezone.now()
    triggers.remove()
    make_order(market.customers[0], market.products, at=now)
    Entry.objects.all().delete()
    Books.objects.all().delete()
    migrating.after(using="default")
    assert services.needs_rebuild()
    services.keep_up(now=now)

    assert_right(market, now)


@pytest.mark.django_db(transaction=True)
def test_triggers_that_a_migration_took_with_it_when_it_died_are_made_again():
    began = timezone.now()
    services.make_way(now=began)
    services.keep_up(now=began + timedelta(minutes=59))
    services.reconcile_nightly(now=began.replace(hour=12))
    assert triggers.are_there() == (connection.vendor == "postgresql")

    services.keep_up(now=began + timedelta(minutes=61))
    assert triggers.are_there()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["migrate", "night"])
def test_versions_side_by_side_leave_each_other_their_triggers_until_one_migrates_or_the_night(
    monkeypatch: pytest.MonkeyPatch, how: str
):
    now = timezone.now().replace(hour=12)
    with monkeypatch.context() as older:
        older.setattr(contributions, "IS_APPROVED", "(f.status = 'approved')")
        services.open_books()
        assert triggers.are_right()
    services.keep_up(now=now)
    assert triggers.are_there()
    assert not triggers.are_right()
    assert not services.needs_rebuild()

    if how == "migrate":
        migrating.after(using="default")
    else:
        services.reconcile_nightly(now=now)
    assert triggers.are_right()


@pytest.mark.parametrize("name", ["Europe/Atlantis", "CET"])
def test_a_zone_that_is_none_or_has_no_summer_time_in_postgresql_is_refused(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv("STOA_ANALYTICS_TIME_ZONE", name)

    with pytest.raises(ImproperlyConfigured, match="name a time zone, as in Europe/Dublin"):
        time_zone(Env(), "STOA_ANALYTICS_TIME_ZONE")


@pytest.mark.django_db
def test_no_migration_is_missing():
    call_command("makemigrations", "commerce_analytics", check=True, dry_run=True, verbosity=0)
