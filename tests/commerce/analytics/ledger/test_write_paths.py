"""Every way to write to the shop's tables: afterwards all endpoints return what brute force computes."""
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

from commerce.analytics.aggregation.batches import aggregate_ledger
from commerce.analytics.aggregation.reconcile import find_differences
from commerce.catalog.models import Product
from commerce.catalog.services import delete_product
from commerce.orders.bulk_insert import BulkOrder, BulkOrderLine, insert_orders
from commerce.orders.models import Order, OrderLine, Refund
from commerce.reviews.models import Review
from commerce.reviews.services import delete_review
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.analytics.factories import (
    Market,
    assert_analytics_correct,
    assert_rollups_correct,
    delete_order_tree,
    make_order,
    make_refund,
    order_tree_ids,
    run_sql,
)
from tests.commerce.conftest import make_user
from tests.commerce.orders.factories import make_goods
from tests.commerce.reviews.factories import review

PASSWORD = "correct horse battery staple"
ORDERS, LINES, REFUNDS = (model._meta.db_table for model in (Order, OrderLine, Refund))

# A change of a complete order of two shops, or of its refund.
Write = Callable[[Market, Order, datetime], Any]


def child(order: Order, number: int = 0) -> Order:
    return order.children.order_by("pk")[number]


def save_all_fields(row: Any, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(row, name, value)
    row.save()


def delete_parent_first(order: Order) -> None:
    """Delete a parent before its children, as raw SQL can: foreign keys are checked on commit."""
    run_sql(f"DELETE FROM {ORDERS} WHERE id = %s", order.pk)
    run_sql(f"DELETE FROM {ORDERS} WHERE parent_id = %s", order.pk)
    run_sql(f"DELETE FROM {LINES} WHERE order_id NOT IN (SELECT id FROM {ORDERS})")
    run_sql(f"DELETE FROM {REFUNDS} WHERE order_id NOT IN (SELECT id FROM {ORDERS})")


def insert_parts_first(market: Market, order: Order) -> None:
    """Insert the children before their parent, as loaddata can."""
    ids = order_tree_ids(order)
    lines = list(OrderLine.objects.filter(order__in=ids).order_by("pk"))
    refunds, orders = list(Refund.objects.filter(order__in=ids)), list(Order.objects.filter(pk__in=ids).order_by("-pk"))
    delete_order_tree(order)
    order.pk = ids[0]
    for row in [*refunds, *lines, *orders]:
        type(row)._default_manager.bulk_create([row])


def replace_row(order: Order) -> None:
    """Replace a row: SQLite's REPLACE deletes the old one, PostgreSQL's upsert changes it."""
    columns = ", ".join(f'"{field.column}"' for field in Order._meta.concrete_fields)
    values = columns.replace('"order_status"', "'failed'")
    chosen = f"SELECT {values} FROM {ORDERS} WHERE id = {order.pk}"
    if connection.vendor == "sqlite":
        run_sql(f"INSERT OR REPLACE INTO {ORDERS} ({columns}) {chosen}")
        return
    run_sql(
        f"INSERT INTO {ORDERS} ({columns}) {chosen} ON CONFLICT (id) DO UPDATE SET order_status = excluded.order_status"
    )


def upsert(order: Order, child: Order) -> None:
    """Upsert both with one statement, which inserts one of them."""
    Order.objects.bulk_create(
        [order, child], update_conflicts=True, unique_fields=["id"], update_fields=["order_status", "parent"]
    )


def upsert_new_child(order: Order) -> None:
    Order.objects.filter(pk=order.pk).update(order_status="pending")
    new, order.order_status = child(order), "complete"
    new.pk, new.tracking_number = order.pk + 1000, "another"
    upsert(order, new)


def upsert_new_parent(order: Order) -> None:
    moved = child(order)
    order.pk, order.tracking_number = order.pk + 1000, "another"
    moved.parent_id = order.pk
    upsert(order, moved)


def with_immediate_constraints(write: Callable[[Order], None], order: Order) -> None:
    """Write with immediate foreign key checks, which lock the parents."""
    if connection.vendor == "postgresql":
        run_sql("SET CONSTRAINTS ALL IMMEDIATE")
    write(order)


def admin_client() -> Client:
    site = Client()
    site.force_login(User.objects.get(role=Role.SUPER_ADMIN))
    return site


def run_action(rows: "QuerySet[Any]", action: str) -> None:
    """Run an admin action on these rows as a super admin."""
    before = list(rows.order_by("pk").values())
    chosen = [str(row.pk) for row in rows]
    path = reverse(f"admin:{rows.model._meta.label_lower.replace('.', '_')}_changelist")
    answer = admin_client().post(path, {"action": action, "_selected_action": chosen}, follow=True)
    assert [message.level_tag for message in get_messages(answer.wsgi_request)] == []
    assert list(type(rows)(rows.model).filter(pk__in=chosen).order_by("pk").values()) != before


def save_user_page(page: str, **fields: str) -> None:
    """Save a page of the user admin as a super admin."""
    answer = admin_client().post(f"/admin/accounts/user/{page}", fields)
    assert answer.status_code == 302, answer.context["adminform"].errors


WRITES: dict[str, Write] = {
    "save() of a child order": lambda m, o, now: save_all_fields(child(o), order_status="failed"),
    "save() of some columns": lambda m, o, now: Order(pk=o.pk, order_status="pending").save(
        update_fields=["order_status"]
    ),
    "bulk_update": lambda m, o, now: Order.objects.bulk_update(
        [Order(pk=pk, order_status="processing") for pk in order_tree_ids(o)], ["order_status"]
    ),
    "update() of all orders": lambda m, o, now: Order.objects.update(order_status="cancelled"),
    "update() of parents and children at once": lambda m, o, now: Order.objects.filter(pk__in=order_tree_ids(o)).update(
        order_status="pending", created_at=now - timedelta(days=40)
    ),
    "update() of a parent's day": lambda m, o, now: Order.objects.filter(pk=o.pk).update(
        created_at=F("created_at") - timedelta(days=400)
    ),
    "update() of a column that does not count": lambda m, o, now: Order.objects.update(customer_contact="0"),
    "another currency": lambda m, o, now: Order.objects.filter(pk__in=order_tree_ids(o)).update(currency="USD"),
    "another shop": lambda m, o, now: Order.objects.filter(pk=child(o).pk).update(shop=m.shops[2]),
    "another customer": lambda m, o, now: Order.objects.filter(pk__in=order_tree_ids(o)).update(
        customer=m.customers[1]
    ),
    "another total": lambda m, o, now: Order.objects.filter(pk=child(o).pk).update(amount=7, total=7, paid_total=7),
    "another fee": lambda m, o, now: Order.objects.filter(pk=o.pk).update(
        delivery_fee=7, total=F("amount") + 7, paid_total=7
    ),
    "another parent": lambda m, o, now: Order.objects.filter(pk=child(o).pk).update(
        parent=make_order(m.customers[1], m.products[:1], at=now - timedelta(days=3), status="pending")
    ),
    "update() of no row": lambda m, o, now: Order.objects.filter(pk=0).update(order_status="failed"),
    "raw SQL": lambda m, o, now: run_sql(f"UPDATE {ORDERS} SET order_status = 'failed' WHERE parent_id IS NULL"),
    "a replaced row": lambda m, o, now: replace_row(o),
    "a parent that changes while a new child is inserted": lambda m, o, now: upsert_new_child(o),
    "a child that moves to a new parent": lambda m, o, now: upsert_new_parent(o),
    "a new child with immediate constraints": lambda m, o, now: with_immediate_constraints(upsert_new_child, o),
    "a new parent with immediate constraints": lambda m, o, now: with_immediate_constraints(upsert_new_parent, o),
    "a deleted tree": lambda m, o, now: delete_order_tree(o),
    "a parent deleted before its children": lambda m, o, now: delete_parent_first(o),
    "a tree deleted by one statement": lambda m, o, now: (
        Refund.objects.all().delete(),
        OrderLine.objects.all().delete(),
        run_sql(f"DELETE FROM {ORDERS}"),
    ),
    "children inserted before their parent": lambda m, o, now: insert_parts_first(m, o),
    "lines added later": lambda m, o, now: OrderLine.objects.bulk_create([
        OrderLine(order=child(o), product=m.products[1], quantity=5, unit_price=1, subtotal=5)
    ]),
    "changed lines": lambda m, o, now: OrderLine.objects.update(
        quantity=F("quantity") + 1, subtotal=F("unit_price") * (F("quantity") + 1)
    ),
    "lines of other products": lambda m, o, now: OrderLine.objects.update(product=m.products[3]),
    "lines moved to another order": lambda m, o, now: OrderLine.objects.update(order=child(o, 1)),
    "deleted lines": lambda m, o, now: OrderLine.objects.filter(product=m.products[0]).delete(),
    "a refund rejected after all": lambda m, o, now: Refund.objects.update(status="rejected"),
    "a refund of another day": lambda m, o, now: Refund.objects.update(updated_at=now - timedelta(days=33)),
    "a refund of another amount": lambda m, o, now: save_all_fields(Refund.objects.get(), amount=11),
    "a refund of another order": lambda m, o, now: Refund.objects.update(order=o, shop=None),
    "a deleted refund": lambda m, o, now: Refund.objects.all().delete(),
    "orders in bulk": lambda m, o, now: list(insert_orders(past_orders(m, now), random=Random(1))),
    "a user who becomes a customer": lambda m, o, now: User.objects.filter(
        pk=make_user(Role.STAFF, "new").pk
    ).update(role="CUSTOMER"),
    "a user who joined earlier": lambda m, o, now: User.objects.update(created_at=now - timedelta(days=31)),
    "a customer who becomes staff": lambda m, o, now: run_sql(
        "UPDATE accounts_user SET role = 'STAFF' WHERE role = 'CUSTOMER'"
    ),
    "a review": lambda m, o, now: review(m.customers[0], m.products[2], rating=3),
    "changed reviews": lambda m, o, now: Review.objects.update(rating=1),
    "a review deleted softly": lambda m, o, now: Review.objects.filter(rating=5).update(deleted_at=now),
    "hidden reviews": lambda m, o, now: Review.objects.update(hidden_at=now),
    "restored reviews": lambda m, o, now: Review.objects.update(deleted_at=None),
    "reviews of another product": lambda m, o, now: Review.objects.filter(rating=4).update(product=m.products[4]),
    "a deleted review": lambda m, o, now: Review.objects.filter(rating=5).delete(),
    "a review deleted by its author": lambda m, o, now: delete_review(
        review_id=Review.objects.get(rating=5).pk, actor=m.customers[0], now=now
    ),
    "a deleted product": lambda m, o, now: delete_product(actor=m.shops[0].owner, product_id=m.products[0].pk, now=now),
    "orders completed in the admin": lambda m, o, now: run_action(
        Order.objects.filter(order_status="processing").exclude(parent=None), "set_status_complete"
    ),
    "one child order cancelled in the admin": lambda m, o, now: run_action(
        Order.objects.filter(order_status="processing", shop=m.shops[0]), "set_status_cancelled"
    ),
    "a refund approved in the admin": lambda m, o, now: run_action(
        Refund.objects.filter(pk=make_refund(child(o, 1), 200, at=now - timedelta(days=40), status="requested").pk),
        "approve",
    ),
    "a full refund approved in the admin": lambda m, o, now: run_action(
        Refund.objects.filter(pk=make_refund(child(o, 1), 2500, at=now, status="requested").pk), "approve"
    ),
    "a review taken down in the admin": lambda m, o, now: run_action(Review.objects.filter(rating=5), "take_down"),
    "products deleted in the admin": lambda m, o, now: run_action(
        Product.objects.filter(shop=m.shops[0]), "delete_from_lists"
    ),
    "a customer made staff in the admin": lambda m, o, now: save_user_page(
        f"{m.customers[0].pk}/change/", email="ada@example.com", name="Ada", role="STAFF", is_active="on"
    ),
    "a customer added in the admin": lambda m, o, now: save_user_page(
        "add/", email="new@example.com", name="New", role="CUSTOMER", password1=PASSWORD, password2=PASSWORD
    ),
    "a product in no category": lambda m, o, now: m.products[0].categories.clear(),
}  # fmt: skip


def past_orders(market: Market, now: datetime) -> list[BulkOrder]:
    lamp, stool = market.products[0], market.products[2]
    lines = (BulkOrderLine(lamp.shop_id, lamp.pk, 2, 1250), BulkOrderLine(stool.shop_id, stool.pk, 3, 2000))
    endings = (
        {lamp.shop_id: "complete", stool.shop_id: "refunded"},
        {lamp.shop_id: "pending", stool.shop_id: "complete"},
    )
    customer = market.customers[1]
    return [
        BulkOrder(customer.pk, now - timedelta(days=days), "EUR", lines, endings[days % 2], sales_tax=100)
        for days in range(60)
    ]


@pytest.fixture
def order(market: Market, now: datetime) -> Order:
    """Return a complete order of today from two shops of one owner, beside an older order, reviews and a refund."""
    make_order(market.customers[0], market.products, at=now - timedelta(days=20), status="processing")
    order = make_order(market.customers[0], market.products[:4], at=now)
    make_refund(child(order), 300, at=now)
    for product, stars in zip(market.products[:3], (5, 4, 2), strict=True):
        review(market.customers[0], product, rating=stars)
    Review.objects.filter(rating=2).update(deleted_at=now)
    Product.objects.update(sold_quantity=100)
    return order


# What was aggregated before, in PostgreSQL too: test_random_histories.py.
@pytest.mark.parametrize(
    "is_aggregated", [False, pytest.param(True, marks=pytest.mark.no_database)], ids=["waiting", "aggregated"]
)
@pytest.mark.parametrize("name", WRITES)
def test_every_write_path_is_counted(market: Market, order: Order, now: datetime, name: str, is_aggregated: bool):
    if is_aggregated:
        aggregate_ledger(now=now)
    WRITES[name](market, order, now)

    # What is read from orders and products is the same, whatever is aggregated.
    (assert_rollups_correct if is_aggregated else assert_analytics_correct)(market, now)


def test_children_whose_change_was_rolled_back_count_with_their_parent(market: Market, now: datetime):
    """PostgreSQL reports another cmin for a row than that of the command that inserted it."""
    shops = [Shop.objects.create(owner=market.owners[0], name=f"Shop {n}", slug=f"shop-{n}") for n in range(20)]
    order = make_order(market.customers[0], [make_goods(shop, shop.slug) for shop in shops], at=now)
    for status in ("processing", "complete") * 6:
        with suppress(InterruptedError), transaction.atomic():
            order.children.update(payment_gateway="x")
            raise InterruptedError
        Order.objects.filter(pk=order.pk).update(order_status=status)
        assert find_differences() == []
