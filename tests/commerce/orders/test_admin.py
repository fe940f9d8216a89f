"""Orders and refunds in the admin."""

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from commerce.catalog.models import Product
from commerce.orders.bulk_insert import BulkOrder, BulkOrderLine, insert_orders
from commerce.orders.models import Order, Refund
from commerce.orders.services import request_refund
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import make_user
from tests.commerce.databases import plan_of
from tests.commerce.orders.factories import buy, make_goods, other_shop

ORDERS, REFUNDS = "/admin/commerce_orders/order/", "/admin/commerce_orders/refund/"


@pytest.fixture
def site(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_goods(shop)


def add_orders(customer: User, lamp: Product, count: int) -> None:
    """Add refunded orders, one for each hour until now."""
    lines, statuses = (BulkOrderLine(lamp.shop_id, lamp.pk, 1, 1250),), {lamp.shop_id: "refunded"}
    now = timezone.now()
    past = (BulkOrder(customer.pk, now - timedelta(hours=n), "EUR", lines, statuses) for n in range(count))
    list(insert_orders(past, random=Random(count)))


@pytest.fixture
def order(customer: User, lamp: Product) -> Order:
    return buy(customer, (lamp, 2), (make_goods(other_shop(), "tent"), 1))


def shown(site: Client, path: str, **query: Any) -> str:
    answer = site.get(path, query)
    assert answer.status_code == 200
    return answer.content.decode()


def act(site: Client, path: str, action: str, *rows: Order | Refund) -> str:
    """Run an admin action on these rows and return the resulting page."""
    sent = {"action": action, "_selected_action": [row.pk for row in rows]}
    return site.post(path, sent, follow=True).content.decode()


def test_the_list_shows_money_in_major_units(site: Client, order: Order):
    page = shown(site, ORDERS)

    assert order.tracking_number in page
    assert "37.50 EUR" in page
    assert "25.00 EUR" in page


def test_orders_are_found_by_tracking_number_customer_and_shop(
    site: Client, customer: User, lamp: Product, order: Order
):
    other = buy(make_user(Role.CUSTOMER, "zoe"), (lamp, 1))
    part = order.children.get(shop__slug="other")
    found = {order.tracking_number[:12]: order, "some-customer@": order, "other": part, str(other.pk): other}
    for query, row in found.items():
        page = shown(site, ORDERS, q=query)
        assert row.tracking_number in page
        assert (other.tracking_number in page) == (row == other)


def test_orders_of_many_customers_are_found_by_the_index_of_customers(site: Client, customer: User, lamp: Product):
    orders = [buy(make_user(Role.CUSTOMER, f"zoe{number}"), (lamp, 1)) for number in range(12)]
    add_orders(customer, lamp, 2000)
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {Order._meta.db_table}")
    with CaptureQueriesContext(connection) as queries:
        page = shown(site, ORDERS, q="zoe")

    assert all(order.tracking_number in page for order in orders)
    (search,) = (query["sql"] for query in queries if '"customer_id" IN' in query["sql"])
    assert "commerce_order_of_customer" in plan_of(search)


def test_the_children_of_an_order_are_found_by_an_index(order: Order):
    assert "commerce_order_of_parent" in plan_of(str(order.children.order_by().query))


def test_orders_are_filtered_by_status_and_by_parent_or_child(site: Client, order: Order):
    part = order.children.order_by("pk")[0]
    act(site, ORDERS, "set_status_processing", part)

    assert part.tracking_number in shown(site, ORDERS, order_status__exact="processing")
    assert order.tracking_number not in shown(site, ORDERS, order_status__exact="processing")
    parents = shown(site, ORDERS, parent__isempty="1")
    assert order.tracking_number in parents
    assert part.tracking_number not in parents


def test_a_shops_orders_are_listed_newest_first(site: Client, customer: User, lamp: Product, order: Order):
    later = buy(customer, (lamp, 1)).children.get()
    older = order.children.get(shop=lamp.shop)

    page = shown(site, ORDERS, shop__id__exact=lamp.shop_id)

    assert 0 < page.index(later.tracking_number) < page.index(older.tracking_number)
    assert order.tracking_number not in page


def test_a_parents_page_shows_children_and_a_childs_page_its_lines(site: Client, order: Order, lamp: Product):
    part = order.children.order_by("pk")[0]

    assert "Orders of the shops" in shown(site, f"{ORDERS}{order.pk}/change/")
    page = shown(site, f"{ORDERS}{part.pk}/change/")
    assert lamp.name in page
    assert "12.50 EUR" in page


def test_the_admin_adds_edits_and_deletes_nothing(site: Client, order: Order):
    before = list(Order.objects.order_by("pk").values())

    assert site.get(f"{ORDERS}add/").status_code == 403
    assert site.post(f"{ORDERS}{order.pk}/change/", {"total": 1, "order_status": "complete"}).status_code == 403
    assert site.post(f"{ORDERS}{order.pk}/delete/", {"post": "yes"}).status_code == 403
    assert list(Order.objects.order_by("pk").values()) == before


def test_an_action_changes_statuses_and_reports_skipped_orders(site: Client, order: Order):
    first, second = order.children.order_by("pk")
    page = act(site, ORDERS, "set_status_complete", first, order)

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.order_status, second.order_status) == ("complete", "pending")
    assert "follows from the orders of its shops" in page


def test_refunds_are_decided_by_actions(site: Client, order: Order, customer: User):
    refunds = [
        request_refund(customer=customer, order_id=part.pk, amount=100, reason="Late.", now=timezone.now())
        for part in order.children.order_by("pk")
    ]
    assert "1.00 EUR" in shown(site, REFUNDS)

    act(site, REFUNDS, "approve", refunds[0])
    page = act(site, REFUNDS, "reject", *refunds)

    assert list(Refund.objects.order_by("pk").values_list("status", flat=True)) == ["approved", "rejected"]
    assert "decided already" in page
    assert "Late." in shown(site, f"{REFUNDS}{refunds[0].pk}/change/")


@pytest.mark.parametrize("path", [ORDERS, REFUNDS])
def test_the_lists_take_as_many_queries_for_many_rows_as_for_few(
    site: Client, customer: User, lamp: Product, path: str
):
    def queries_with_more(rows: int) -> int:
        add_orders(customer, lamp, rows)
        with CaptureQueriesContext(connection) as queries:
            shown(site, path)
        return len(queries)

    few = queries_with_more(10)
    assert few <= 6  # session, user, count and rows, and the menu of every page
    assert queries_with_more(190) == few


@pytest.mark.parametrize("path", [ORDERS, REFUNDS])
@pytest.mark.parametrize("query", [{"q": "\x00"}, {"q": "9" * 40}, {"q": "'\"%_"}, {"p": "9" * 30}])
def test_i7_no_query_is_a_server_error(site: Client, order: Order, path: str, query: dict[str, str]):
    assert site.get(path, query).status_code in (200, 302)
