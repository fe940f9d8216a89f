"""No way to write passes the figures by: after each, every endpoint tells everybody what brute force does."""
# ruff: noqa: S608 - the statements name our own tables

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.test import Client
from django.urls import reverse

from commerce.analytics import reconcile, services
from commerce.catalog.models import Product
from commerce.catalog.services import delete_product
from commerce.orders.bulk import PastLine, PastOrder, insert_past_orders
from commerce.orders.models import Order, OrderLine, Refund
from commerce.reviews.models import Review
from commerce.reviews.services import delete_review
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.analytics.market import (
    Market,
    assert_right,
    delete_tree,
    make_order,
    make_refund,
    run_sql,
    whole,
)
from tests.commerce.conftest import make_user
from tests.commerce.orders.buying import make_goods
from tests.commerce.reviews.writing import review

PASSWORD = "correct horse battery staple"
ORDERS, LINES, REFUNDS = (model._meta.db_table for model in (Order, OrderLine, Refund))

# Each does something with the order of two shops, which is complete, and its refund.
Write = Callable[[Market, Order, datetime], Any]


def part(order: Order, number: int = 0) -> Order:
    return order.children.order_by("pk")[number]


def save_everything(row: Any, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(row, name, value)
    row.save()


def delete_parent_first(order: Order) -> None:
    """As raw SQL may: constraints are looked at when the transaction ends."""
    run_sql(f"DELETE FROM {ORDERS} WHERE id = %s", order.pk)
    run_sql(f"DELETE FROM {ORDERS} WHERE parent_id = %s", order.pk)
    run_sql(f"DELETE FROM {LINES} WHERE order_id NOT IN (SELECT id FROM {ORDERS})")
    run_sql(f"DELETE FROM {REFUNDS} WHERE order_id NOT IN (SELECT id FROM {ORDERS})")


def insert_parts_first(market: Market, order: Order) -> None:
    """As loaddata may."""
    ids = whole(order)
    lines = list(OrderLine.objects.filter(order__in=ids).order_by("pk"))
    refunds, orders = list(Refund.objects.filter(order__in=ids)), list(Order.objects.filter(pk__in=ids).order_by("-pk"))
    delete_tree(order)
    order.pk = ids[0]
    for row in [*refunds, *lines, *orders]:
        type(row)._default_manager.bulk_create([row])


def replace_row(order: Order) -> None:
    """SQLite's REPLACE deletes the row in its way; PostgreSQL's upsert changes it."""
    columns = ", ".join(f'"{field.column}"' for field in Order._meta.concrete_fields)
    values = columns.replace('"order_status"', "'failed'")
    chosen = f"SELECT {values} FROM {ORDERS} WHERE id = {order.pk}"
    if connection.vendor == "sqlite":
        run_sql(f"INSERT OR REPLACE INTO {ORDERS} ({columns}) {chosen}")
        return
    run_sql(
        f"INSERT INTO {ORDERS} ({columns}) {chosen} ON CONFLICT (id) DO UPDATE SET order_status = excluded.order_status"
    )


def upsert(order: Order, part: Order) -> None:
    """Both by one statement, which inserts one of them."""
    Order.objects.bulk_create(
        [order, part], update_conflicts=True, unique_fields=["id"], update_fields=["order_status", "parent"]
    )


def upsert_new_part(order: Order) -> None:
    Order.objects.filter(pk=order.pk).update(order_status="pending")
    new, order.order_status = part(order), "complete"
    new.pk, new.tracking_number = order.pk + 1000, "another"
    upsert(order, new)


def upsert_new_parent(order: Order) -> None:
    moved = part(order)
    order.pk, order.tracking_number = order.pk + 1000, "another"
    moved.parent_id = order.pk
    upsert(order, moved)


def at_once(write: Callable[[Order], None], order: Order) -> None:
    """Constraints are looked at by each statement, which locks the parents of its parts."""
    if connection.vendor == "postgresql":
        run_sql("SET CONSTRAINTS ALL IMMEDIATE")
    write(order)


def admins() -> Client:
    site = Client()
    site.force_login(User.objects.get(role=Role.SUPER_ADMIN))
    return site


def act(rows: "QuerySet[Any]", action: str) -> None:
    """As a super admin who chooses these rows of their list in the admin."""
    before = list(rows.order_by("pk").values())
    chosen = [str(row.pk) for row in rows]
    path = reverse(f"admin:{rows.model._meta.label_lower.replace('.', '_')}_changelist")
    answer = admins().post(path, {"action": action, "_selected_action": chosen}, follow=True)
    assert [message.level_tag for message in get_messages(answer.wsgi_request)] == []
    assert list(type(rows)(rows.model).filter(pk__in=chosen).order_by("pk").values()) != before


def fill_in(page: str, **fields: str) -> None:
    """As a super admin who saves this page about users in the admin."""
    answer = admins().post(f"/admin/accounts/user/{page}", fields)
    assert answer.status_code == 302, answer.context["adminform"].errors


WRITES: dict[str, Write] = {
    "a single save of a part": lambda m, o, now: save_everything(part(o), order_status="failed"),
    "a save of some columns": lambda m, o, now: Order(pk=o.pk, order_status="pending").save(
        update_fields=["order_status"]
    ),
    "bulk_update": lambda m, o, now: Order.objects.bulk_update(
        [Order(pk=pk, order_status="processing") for pk in whole(o)], ["order_status"]
    ),
    "an update of all rows": lambda m, o, now: Order.objects.update(order_status="cancelled"),
    "an update of parents and parts at once": lambda m, o, now: Order.objects.filter(pk__in=whole(o)).update(
        order_status="pending", created_at=now - timedelta(days=40)
    ),
    "an update of a parent's day": lambda m, o, now: Order.objects.filter(pk=o.pk).update(
        created_at=F("created_at") - timedelta(days=400)
    ),
    "an update of nothing that counts": lambda m, o, now: Order.objects.update(customer_contact="0"),
    "another currency": lambda m, o, now: Order.objects.filter(pk__in=whole(o)).update(currency="USD"),
    "another shop": lambda m, o, now: Order.objects.filter(pk=part(o).pk).update(shop=m.shops[2]),
    "another customer": lambda m, o, now: Order.objects.filter(pk__in=whole(o)).update(customer=m.customers[1]),
    "another total": lambda m, o, now: Order.objects.filter(pk=part(o).pk).update(amount=7, total=7, paid_total=7),
    "another fee": lambda m, o, now: Order.objects.filter(pk=o.pk).update(
        delivery_fee=7, total=F("amount") + 7, paid_total=7
    ),
    "another parent": lambda m, o, now: Order.objects.filter(pk=part(o).pk).update(
        parent=make_order(m.customers[1], m.products[:1], at=now - timedelta(days=3), status="pending")
    ),
    "an update of no row": lambda m, o, now: Order.objects.filter(pk=0).update(order_status="failed"),
    "raw SQL": lambda m, o, now: run_sql(f"UPDATE {ORDERS} SET order_status = 'failed' WHERE parent_id IS NULL"),
    "a replaced row": lambda m, o, now: replace_row(o),
    "a parent that changes with a part that is new": lambda m, o, now: upsert_new_part(o),
    "a part that gets a parent that is new": lambda m, o, now: upsert_new_parent(o),
    "a new part, whose parent is looked at at once": lambda m, o, now: at_once(upsert_new_part, o),
    "a new parent, which is looked at at once": lambda m, o, now: at_once(upsert_new_parent, o),
    "a deleted tree": lambda m, o, now: delete_tree(o),
    "a parent that is deleted before its parts": lambda m, o, now: delete_parent_first(o),
    "a tree that is deleted by one statement": lambda m, o, now: (
        Refund.objects.all().delete(),
        OrderLine.objects.all().delete(),
        run_sql(f"DELETE FROM {ORDERS}"),
    ),
    "parts that are inserted before their parent": lambda m, o, now: insert_parts_first(m, o),
    "lines that come later": lambda m, o, now: OrderLine.objects.bulk_create([
        OrderLine(order=part(o), product=m.products[1], quantity=5, unit_price=1, subtotal=5)
    ]),
    "lines that change": lambda m, o, now: OrderLine.objects.update(
        quantity=F("quantity") + 1, subtotal=F("unit_price") * (F("quantity") + 1)
    ),
    "lines of other products": lambda m, o, now: OrderLine.objects.update(product=m.products[3]),
    "lines that go to another order": lambda m, o, now: OrderLine.objects.update(order=part(o, 1)),
    "lines that are deleted": lambda m, o, now: OrderLine.objects.filter(product=m.products[0]).delete(),
    "a refund that is rejected after all": lambda m, o, now: Refund.objects.update(status="rejected"),
    "a refund of another day": lambda m, o, now: Refund.objects.update(updated_at=now - timedelta(days=33)),
    "a refund of another amount": lambda m, o, now: save_everything(Refund.objects.get(), amount=11),
    "a refund of another order": lambda m, o, now: Refund.objects.update(order=o, shop=None),
    "a deleted refund": lambda m, o, now: Refund.objects.all().delete(),
    "orders in bulk": lambda m, o, now: list(insert_past_orders(past_orders(m, now), random=Random(1))),
    "a user who becomes a customer": lambda m, o, now: User.objects.filter(
        pk=make_user(Role.STAFF, "new").pk
    ).update(role="CUSTOMER"),
    "a user who joined earlier": lambda m, o, now: User.objects.update(created_at=now - timedelta(days=31)),
    "a customer who is gone": lambda m, o, now: run_sql(
        "UPDATE accounts_user SET role = 'STAFF' WHERE role = 'CUSTOMER'"
    ),
    "a review": lambda m, o, now: review(m.customers[0], m.products[2], rating=3),
    "reviews that all change": lambda m, o, now: Review.objects.update(rating=1),
    "a hidden review": lambda m, o, now: Review.objects.filter(rating=5).update(deleted_at=now),
    "reviews that are hidden for now": lambda m, o, now: Review.objects.update(hidden_at=now),
    "reviews that come back": lambda m, o, now: Review.objects.update(deleted_at=None),
    "reviews of another product": lambda m, o, now: Review.objects.filter(rating=4).update(product=m.products[4]),
    "a deleted review": lambda m, o, now: Review.objects.filter(rating=5).delete(),
    "a review that its author takes back": lambda m, o, now: delete_review(
        review_id=Review.objects.get(rating=5).pk, actor=m.customers[0], now=now
    ),
    "a deleted product": lambda m, o, now: delete_product(actor=m.shops[0].owner, product_id=m.products[0].pk, now=now),
    "orders that are moved on in the admin": lambda m, o, now: act(
        Order.objects.filter(order_status="processing").exclude(parent=None), "move_to_complete"
    ),
    "one part that is moved on in the admin": lambda m, o, now: act(
        Order.objects.filter(order_status="processing", shop=m.shops[0]), "move_to_cancelled"
    ),
    "a refund that is approved in the admin": lambda m, o, now: act(
        Refund.objects.filter(pk=make_refund(part(o, 1), 200, at=now - timedelta(days=40), status="requested").pk),
        "approve",
    ),
    "a whole refund that is approved in the admin": lambda m, o, now: act(
        Refund.objects.filter(pk=make_refund(part(o, 1), 2500, at=now, status="requested").pk), "approve"
    ),
    "a review that is taken down in the admin": lambda m, o, now: act(Review.objects.filter(rating=5), "take_down"),
    "products that are deleted in the admin": lambda m, o, now: act(
        Product.objects.filter(shop=m.shops[0]), "delete_from_lists"
    ),
    "a customer who is made staff in the admin": lambda m, o, now: fill_in(
        f"{m.customers[0].pk}/change/", email="ada@example.com", name="Ada", role="STAFF", is_active="on"
    ),
    "a customer who is added in the admin": lambda m, o, now: fill_in(
        "add/", email="new@example.com", name="New", role="CUSTOMER", password1=PASSWORD, password2=PASSWORD
    ),
    "a product in no category": lambda m, o, now: m.products[0].categories.clear(),
}  # fmt: skip


def past_orders(market: Market, now: datetime) -> list[PastOrder]:
    lamp, stool = market.products[0], market.products[2]
    lines = (PastLine(lamp.shop_id, lamp.pk, 2, 1250), PastLine(stool.shop_id, stool.pk, 3, 2000))
    endings = (
        {lamp.shop_id: "complete", stool.shop_id: "refunded"},
        {lamp.shop_id: "pending", stool.shop_id: "complete"},
    )
    customer = market.customers[1]
    return [
        PastOrder(customer.pk, now - timedelta(days=days), "EUR", lines, endings[days % 2], sales_tax=100)
        for days in range(60)
    ]


@pytest.fixture
def order(market: Market, now: datetime) -> Order:
    """Complete, of today, by two shops of one owner; beside an older one by all three, some reviews and a refund."""
    make_order(market.customers[0], market.products, at=now - timedelta(days=20), status="processing")
    order = make_order(market.customers[0], market.products[:4], at=now)
    make_refund(part(order), 300, at=now)
    for product, stars in zip(market.products[:3], (5, 4, 2), strict=True):
        review(market.customers[0], product, rating=stars)
    Review.objects.filter(rating=2).update(deleted_at=now)
    Product.objects.update(sold_quantity=100)
    return order


@pytest.mark.parametrize("folded", [False, True], ids=["not folded", "folded"])
@pytest.mark.parametrize("name", WRITES)
def test_every_write_counts(market: Market, order: Order, now: datetime, name: str, folded: bool):
    if folded:
        services.fold(now=now)
    WRITES[name](market, order, now)

    assert_right(market, now)


def test_parts_that_were_changed_and_rolled_back_count_with_their_parent(market: Market, now: datetime):
    """PostgreSQL tells of such a row another command than the one that made it."""
    shops = [Shop.objects.create(owner=market.owners[0], name=f"Shop {n}", slug=f"shop-{n}") for n in range(20)]
    order = make_order(market.customers[0], [make_goods(shop, shop.slug) for shop in shops], at=now)
    for status in ("processing", "complete") * 6:
        with suppress(InterruptedError), transaction.atomic():
            order.children.update(payment_gateway="x")
            raise InterruptedError
        Order.objects.filter(pk=order.pk).update(order_status=status)
        assert reconcile.differences() == []
