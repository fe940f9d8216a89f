"""Ledger triggers before, during and after migrations."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection, models
from django.utils import timezone

from commerce.analytics import services, signals
from commerce.analytics.aggregation.batches import aggregate_ledger
from commerce.analytics.aggregation.rebuild import needs_rebuild
from commerce.analytics.aggregation.reconcile import find_differences
from commerce.analytics.ledger import entries, triggers
from commerce.analytics.models import LedgerEntry, RollupState
from commerce.config.settings.zones import time_zone
from commerce.orders.models import Order
from shared.environment import Environment
from tests.commerce.analytics.factories import assert_analytics_correct, make_market, make_order

A_PLAN: list[Any] = [("a migration", False)]


def change_column_length(length: int) -> None:
    """Change a column as a migration does: SQLite creates a new table and drops the old one."""
    old = Order._meta.get_field("payment_gateway")
    new: Any = models.CharField(max_length=length)
    new.set_attributes_from_name("payment_gateway")
    new.model = Order
    with connection.schema_editor() as editor:
        editor.alter_field(Order, old, new, strict=True)


@pytest.mark.django_db(transaction=True)
def test_a_table_rebuilt_by_a_migration_gets_its_triggers_back(running_clock: None):
    market, now = make_market(), timezone.now()
    make_order(market.customers[0], market.products, at=now)
    aggregate_ledger(now=now)
    signals.remove_triggers(using="default", plan=A_PLAN)
    change_column_length(65)
    order = make_order(market.customers[1], market.products[:2], at=now)  # another process may write meanwhile
    services.run_maintenance(now=timezone.now())  # and run its maintenance
    change_column_length(64)
    signals.ensure_triggers(using="default")

    assert triggers.are_current()
    assert RollupState.objects.get().is_stale == (connection.vendor == "sqlite")
    services.run_maintenance(now=timezone.now())
    Order.objects.filter(pk=order.pk).update(order_status="pending")
    assert find_differences() == []
    assert_analytics_correct(market, now)


@pytest.mark.django_db
def test_an_empty_migration_plan_keeps_the_triggers():
    signals.remove_triggers(using="default", plan=[])

    assert triggers.are_installed()


@pytest.mark.django_db
def test_migrating_another_database_keeps_the_triggers():
    signals.remove_triggers(using="another", plan=A_PLAN)
    signals.ensure_triggers(using="another")

    assert triggers.are_installed()


@pytest.mark.django_db
def test_orders_older_than_the_ledger_are_counted(running_clock: None):
    market, now = make_market(), timezone.now()
    triggers.remove()
    make_order(market.customers[0], market.products, at=now)
    LedgerEntry.objects.all().delete()
    RollupState.objects.all().delete()
    signals.ensure_triggers(using="default")
    assert needs_rebuild()
    services.run_maintenance(now=now)

    assert_analytics_correct(market, now)


@pytest.mark.django_db(transaction=True)
def test_triggers_are_installed_again_after_a_migration_died():
    started_at = timezone.now()
    services.remove_triggers_for_migration(now=started_at)
    services.run_maintenance(now=started_at + timedelta(minutes=59))
    services.reconcile_nightly(now=started_at.replace(hour=12))
    assert triggers.are_installed() == (connection.vendor == "postgresql")

    services.run_maintenance(now=started_at + timedelta(minutes=61))
    assert triggers.are_installed()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["migrate", "night"])
def test_releases_keep_each_others_triggers_until_one_migrates_or_the_night(monkeypatch: pytest.MonkeyPatch, how: str):
    now = timezone.now().replace(hour=12)
    with monkeypatch.context() as older:
        older.setattr(entries, "IS_APPROVED", "(f.status = 'approved')")
        services.ensure_triggers()
        assert triggers.are_current()
    services.run_maintenance(now=now)
    assert triggers.are_installed()
    assert not triggers.are_current()
    assert not needs_rebuild()

    if how == "migrate":
        signals.ensure_triggers(using="default")
    else:
        services.reconcile_nightly(now=now)
    assert triggers.are_current()


@pytest.mark.parametrize("name", ["Europe/Atlantis", "CET"])
def test_unknown_and_ambiguous_time_zones_are_refused(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv("STOA_ANALYTICS_TIME_ZONE", name)

    with pytest.raises(ImproperlyConfigured, match="set it to a time zone such as Europe/Dublin"):
        time_zone(Environment(), "STOA_ANALYTICS_TIME_ZONE")


@pytest.mark.django_db
def test_no_migration_is_missing():
    call_command("makemigrations", "commerce_analytics", check=True, dry_run=True, verbosity=0)
