"""Random histories through every way to write, with folds, rebuilds and crashes between, at the borders of days and
months in several time zones: whatever happens, everybody is told what brute force finds."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
import time_machine
from django.db import transaction
from django.db.models import F
from django.test import override_settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from commerce.analytics import services
from commerce.analytics.aggregation.batches import aggregate_batch
from commerce.analytics.aggregation.owner_groups import update_next_group
from commerce.analytics.aggregation.rebuild import rebuild_step
from commerce.analytics.aggregation.reconcile import find_differences
from commerce.analytics.models import RollupState
from commerce.orders.bulk_insert import BulkOrder, BulkOrderLine, insert_orders
from commerce.orders.models import Order, OrderLine, Refund
from commerce.orders.services import change_order_status, decide_refund, request_refund
from commerce.reviews.models import Review
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.errors import ApiError
from tests.commerce.analytics.conftest import NOW
from tests.commerce.analytics.factories import (
    Market,
    assert_analytics_correct,
    make_market,
    make_order,
    make_refund,
    run_sql,
)
from tests.commerce.orders.factories import buy
from tests.commerce.state_machines import Walk, walk

ZONES = ["UTC", "America/New_York", "Europe/Dublin", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"]
# Days on which clocks change somewhere, a year and a month begin, and the last ones.
DAYS = [
    (2026, 3, 29),
    (2026, 3, 30),
    (2026, 3, 8),
    (2026, 3, 1),
    (2026, 1, 1),
    (2025, 11, 2),
    (2025, 10, 5),
    (2025, 3, 30),
]
MOMENTS = st.builds(
    lambda day, quarters, micros: min(
        datetime(*day, tzinfo=UTC) + timedelta(minutes=15 * quarters, microseconds=micros), NOW
    ),
    st.sampled_from(DAYS),
    st.integers(-56, 96),
    st.integers(-1, 1),
)
STATUSES = st.sampled_from(["complete", "complete", *Order.Status.values])
PICK = st.integers(0, 1_000_000)
ORDERS = Order._meta.db_table


class FiguresWalk(Walk):
    market: Market

    @initialize(zone=st.sampled_from(ZONES))
    def open_market(self, zone: str) -> None:
        self.travel = time_machine.travel(NOW, tick=False)
        self.travel.start()
        self.settings = override_settings(ANALYTICS_TIME_ZONE=zone)
        self.settings.enable()
        RollupState.objects.update(time_zone=zone)
        self.market = make_market()

    def teardown(self) -> None:
        if hasattr(self, "market"):
            assert_analytics_correct(self.market, NOW)
            self.settings.disable()
            self.travel.stop()
        super().teardown()

    @rule(at=MOMENTS, first=st.integers(0, 5), count=st.integers(1, 6), status=STATUSES, pick=PICK)
    def order(self, at: datetime, first: int, count: int, status: str, pick: int) -> None:
        products = (self.market.products * 2)[first : first + count]
        currency = "USD" if pick % 7 == 0 else "EUR"
        make_order(self.market.customers[pick % 2], products, at=at, status=status, currency=currency)

    @rule(pick=PICK, status=STATUSES)
    def buy(self, pick: int, status: str) -> None:
        def buy_and_move() -> None:
            products = self.market.products
            order = buy(self.market.customers[pick % 2], (products[pick % 6], 1), (products[0], 1))
            part = order.children.select_related("shop__owner").earliest("pk")
            assert part.shop is not None
            change_order_status(order_id=part.pk, status=status, actor=part.shop.owner, now=NOW)

        self.allowed(buy_and_move)

    @rule(at=MOMENTS, days=st.integers(1, 40))
    def orders_in_bulk(self, at: datetime, days: int) -> None:
        lamp, stool = self.market.products[0], self.market.products[2]
        lines = (BulkOrderLine(lamp.shop_id, lamp.pk, 2, 1250), BulkOrderLine(stool.shop_id, stool.pk, 3, 2000))
        endings = {lamp.shop_id: "complete", stool.shop_id: "refunded" if days % 2 else "complete"}
        orders = [
            BulkOrder(self.market.customers[1].pk, at - timedelta(days=ago), "EUR", lines, endings, delivery_fee=490)
            for ago in range(days)
        ]
        list(insert_orders(orders, random=Random(str(Order.objects.count()))))

    @precondition(lambda self: Order.objects.exists())
    @rule(picks=st.lists(PICK, min_size=1, max_size=5), status=STATUSES, way=st.integers(0, 3), lost=st.booleans())
    def change_status(self, picks: list[int], status: str, way: int, lost: bool) -> None:
        ids = [self.one(Order.objects.all(), pick).pk for pick in picks]
        with transaction.atomic():
            if way == 0:
                Order.objects.filter(pk__in=ids).update(order_status=status)
            elif way == 1:
                Order.objects.bulk_update([Order(pk=pk, order_status=status) for pk in ids], ["order_status"])
            elif way == 2:
                order = Order.objects.get(pk=ids[0])
                order.order_status = status
                order.save()
            else:
                run_sql(f"UPDATE {ORDERS} SET order_status = %s WHERE parent_id IS NULL", status)  # noqa: S608
            transaction.set_rollback(lost)

    @precondition(lambda self: Order.objects.exists())
    @rule(pick=PICK, at=MOMENTS)
    def move_to_another_day(self, pick: int, at: datetime) -> None:
        Order.objects.filter(pk=self.one(Order.objects.all(), pick).pk).update(created_at=at)

    @precondition(lambda self: Order.objects.filter(shop__isnull=False).exists())
    @rule(pick=PICK, other=PICK, way=st.integers(0, 3))
    def change_what_it_is_of(self, pick: int, other: int, way: int) -> None:
        order = self.one(Order.objects.filter(shop__isnull=False), pick)
        changes: list[dict[str, Any]] = [
            {"shop": self.market.shops[other % 3]},
            {"customer": self.market.customers[other % 2]},
            {"amount": other, "total": other, "paid_total": other, "refunded_total": 0},
            {"parent": self.one(Order.objects.filter(parent=None), other)},
        ]
        Order.objects.filter(pk=order.pk).update(discount=0, **changes[way])

    @precondition(lambda self: Order.objects.exists())
    @rule(pick=PICK, currency=st.sampled_from(["EUR", "USD"]))
    def change_currency(self, pick: int, currency: str) -> None:
        Order.objects.filter(pk__gte=self.one(Order.objects.all(), pick).pk).update(currency=currency)

    @precondition(lambda self: OrderLine.objects.exists())
    @rule(pick=PICK, way=st.integers(0, 2))
    def change_lines(self, pick: int, way: int) -> None:
        line = self.one(OrderLine.objects.all(), pick)
        rows = OrderLine.objects.filter(pk__gte=line.pk)
        if way == 0:
            rows.update(quantity=F("quantity") + 2, subtotal=F("unit_price") * (F("quantity") + 2))
        elif way == 1:
            rows.update(product=self.market.products[pick % 6])
        else:
            line.delete()

    @precondition(lambda self: Order.objects.exists())
    @rule(pick=PICK, amount=st.integers(1, 5000), at=MOMENTS, status=st.sampled_from(["approved", "rejected"]))
    def refund(self, pick: int, amount: int, at: datetime, status: str) -> None:
        make_refund(self.one(Order.objects.all(), pick), amount, at=at, status=status)

    @precondition(lambda self: Order.objects.exists())
    @rule(pick=PICK)
    def refund_by_the_services(self, pick: int) -> None:
        order = self.one(Order.objects.all(), pick)

        def ask_and_approve() -> None:
            asked = request_refund(customer=order.customer, order_id=order.pk, amount=1, reason="", now=NOW)
            admin = User.objects.get(role="SUPER_ADMIN")
            decide_refund(refund_id=asked.pk, status="approved", actor=admin, now=NOW)

        self.allowed(ask_and_approve)

    @precondition(lambda self: Refund.objects.exists())
    @rule(pick=PICK, at=MOMENTS, status=st.sampled_from(["approved", "rejected"]))
    def change_refunds(self, pick: int, at: datetime, status: str) -> None:
        refund = self.one(Refund.objects.all(), pick)
        Refund.objects.filter(pk__gte=refund.pk).update(status=status, updated_at=at)

    @precondition(lambda self: Order.objects.exists())
    @rule(pick=PICK, is_part=st.booleans())
    def delete(self, pick: int, is_part: bool) -> None:
        order = self.one(Order.objects.all(), pick)
        ids = [order.pk, *order.children.values_list("pk", flat=True)]
        for model in (Refund, OrderLine):
            model._default_manager.filter(order__in=ids).delete()
        order.children.all().delete()
        order.delete()

    @rule(pick=PICK, stars=st.integers(1, 5))
    def review(self, pick: int, stars: int) -> None:
        product = self.market.products[pick % 6]
        Review.objects.filter(product=product).update(deleted_at=NOW)
        Review.objects.create(
            user=self.market.customers[pick % 2], product=product, shop=product.shop, rating=stars,
            created_at=NOW, updated_at=NOW,
        )  # fmt: skip

    @precondition(lambda self: Review.objects.exists())
    @rule(pick=PICK, way=st.integers(0, 2))
    def change_reviews(self, pick: int, way: int) -> None:
        review = self.one(Review.objects.all(), pick)
        if way == 0:
            Review.objects.filter(pk__gte=review.pk).update(**{"deleted_at" if pick % 2 else "hidden_at": NOW})
        elif way == 1:
            Review.objects.update(rating=1 + pick % 5, hidden_at=None)
        else:
            review.delete()

    @rule(pick=PICK, at=MOMENTS, role=st.sampled_from(["CUSTOMER", "STAFF"]))
    def change_users(self, pick: int, at: datetime, role: str) -> None:
        customer = self.market.customers[pick % 2]
        User.objects.filter(pk=customer.pk).update(role=role, created_at=at)

    @rule(pick=PICK)
    def change_the_goods(self, pick: int) -> None:
        product = self.market.products[pick % 6]
        product.refresh_from_db()
        product.deleted_at = None if product.deleted_at else NOW
        product.quantity = pick % 20
        product.save()
        product.categories.set(list(product.categories.model._default_manager.all())[: pick % 3])

    @rule(most=st.integers(1, 30), lost=st.booleans())
    def fold(self, most: int, lost: bool) -> None:
        """`lost`: the process ends before it commits."""
        with transaction.atomic():
            aggregate_batch(now=NOW, limit=most)
            transaction.set_rollback(lost)

    @rule(most=st.integers(1, 4), lost=st.booleans())
    def rebuild_a_step(self, most: int, lost: bool) -> None:
        with transaction.atomic():
            rebuild_step(now=NOW, limit=most)
            transaction.set_rollback(lost)

    @rule(lost=st.booleans())
    def make_a_chain(self, lost: bool) -> None:
        with transaction.atomic():
            update_next_group()
            transaction.set_rollback(lost)

    @rule(shop=st.integers(0, 2), owner=st.integers(0, 1))
    def change_the_owner(self, shop: int, owner: int) -> None:
        """Two of them own the shops at first; what each is told is of the shops that they have then."""
        Shop.objects.filter(pk=self.market.shops[shop].pk).update(owner=self.market.owners[owner])

    @rule(zone=st.sampled_from(ZONES))
    def change_the_zone(self, zone: str) -> None:
        self.settings.disable()
        self.settings = override_settings(ANALYTICS_TIME_ZONE=zone)
        self.settings.enable()
        services.run_maintenance(now=NOW)
        assert RollupState.objects.get().time_zone == zone

    @invariant()
    def every_figure_is_right(self) -> None:
        assert find_differences() == []

    @rule()
    def everybody_is_told_so(self) -> None:
        if hasattr(self, "market"):
            assert_analytics_correct(self.market, NOW)

    @staticmethod
    def allowed(write: Callable[[], Any]) -> None:
        """A write that the services may refuse."""
        try:
            with transaction.atomic():
                write()
        except ApiError:
            return

    @staticmethod
    def one(rows: Any, pick: int) -> Any:
        known = list(rows.order_by("pk"))
        return known[pick % len(known)]


@pytest.mark.timeout(4 * 3600)  # WALKS=300 takes more than an hour on PostgreSQL
def test_rollups_are_correct_after_random_histories(db: None):
    walk(FiguresWalk, walks=5)
