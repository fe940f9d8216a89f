"""GET, POST /api/refunds; GET, PUT /api/refunds/{id}."""

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from commerce.catalog.models import Product
from commerce.orders.bulk_insert import BulkOrder, BulkOrderLine, insert_orders
from commerce.orders.models import Order, Refund
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import ApiClient, make_user
from tests.commerce.orders.factories import buy, make_goods, other_shop

PATH = "/api/refunds"


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_goods(shop)


@pytest.fixture
def part(customer: User, lamp: Product) -> Order:
    """An order of 25.00 EUR from `shop`."""
    return buy(customer, (lamp, 2)).children.get()


def send(client_of: ApiClient, user: User | None, method: str, path: str, sent: Any = None) -> Any:
    return getattr(client_of(user), method)(path, sent, content_type="application/json")


def test_a_customer_requests_a_refund(client_of: ApiClient, customer: User, shop: Shop, part: Order):
    sent = {"order_id": part.pk, "amount": 9.99, "reason": "Chipped."}

    answer = send(client_of, customer, "post", PATH, sent)

    assert answer.status_code == 201, answer.content
    record = answer.json()
    assert (record["order_id"], record["shop_id"], record["amount"]) == (part.pk, shop.pk, 9.99)
    assert (record["status"], record["reason"]) == ("requested", "Chipped.")
    assert set(record) == {"id", "order_id", "shop_id", "amount", "status", "reason", "created_at", "updated_at"}
    assert client_of(customer).get(f"{PATH}/{record['id']}").json() == record
    assert send(client_of, customer, "post", PATH, sent).status_code == 409


def test_amounts_are_in_the_orders_currency(client_of: ApiClient, customer: User, shop: Shop):
    yen = buy(customer, (make_goods(shop, "yen", currency="JPY", price=1250), 1))

    def ask(**sent: Any) -> Any:
        return send(client_of, customer, "post", PATH, {"order_id": yen.pk} | sent)

    assert ask(amount=12.5).json()["errors"] == {"amount": ["JPY has at most 0 decimal places."]}
    assert ask(amount=1, currency="EUR").json()["errors"] == {"currency": ["This order is in JPY."]}
    assert ask(amount=1251).json()["errors"] == {"amount": ["At most 1250 JPY of this order can be refunded."]}
    assert ask().json()["amount"] == 1250
    assert Refund.objects.get().amount == 1250


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"order_id": None}, "order_id"),
        ({"order_id": 0}, "order_id"),
        ({"order_id": 2**63}, "order_id"),
        ({"order_id": "x"}, "order_id"),
        ({"amount": 0}, "amount"),
        ({"amount": -1}, "amount"),
        ({"amount": "1"}, "amount"),
        ({"amount": 25.01}, "amount"),
        ({"amount": 1e300}, "amount"),
        ({"reason": "x" * 2001}, "reason"),
    ],
)
def test_invalid_fields_are_422_by_name(
    client_of: ApiClient, customer: User, part: Order, change: dict[str, Any], field: str
):
    answer = send(client_of, customer, "post", PATH, {"order_id": part.pk, "amount": 1} | change)

    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])
    assert not Refund.objects.exists()


def test_c1_another_users_order_is_like_an_unknown_one(client_of: ApiClient, owner: User, part: Order):
    for user in (make_user(Role.CUSTOMER, "other"), owner):
        foreign = send(client_of, user, "post", PATH, {"order_id": part.pk})
        unknown = send(client_of, user, "post", PATH, {"order_id": 2**63 - 1})
        assert (foreign.status_code, foreign.json()["message"]) == (404, unknown.json()["message"])
    assert send(client_of, None, "post", PATH, {"order_id": part.pk}).status_code == 401


def test_only_the_customer_and_the_shop_see_a_refund_and_only_the_owner_decides(
    client_of: ApiClient, owner: User, staff: User, admin: User, customer: User, part: Order
):
    made = send(client_of, customer, "post", PATH, {"order_id": part.pk, "amount": 25}).json()["id"]
    strangers = [make_user(Role.CUSTOMER, "other"), other_shop().owner]
    for user in (owner, staff, admin, customer, *strangers):
        seen = [refund["id"] for refund in client_of(user).get(PATH).json()["data"]]
        assert seen == ([] if user in strangers else [made])
        assert client_of(user).get(f"{PATH}/{made}").status_code == (404 if user in strangers else 200)

    def decide(user: User | None, status: Any = "approved") -> int:
        return int(send(client_of, user, "put", f"{PATH}/{made}", {"status": status, "amount": 1}).status_code)

    assert [decide(user) for user in (None, staff, customer, *strangers)] == [401, 403, 403, 403, 404]
    assert [decide(owner, status) for status in ("requested", "", None)] == [422] * 3
    assert decide(owner) == 200
    assert decide(admin, "rejected") == 422
    part.refresh_from_db()
    assert (part.order_status, part.refunded_total) == ("refunded", 2500)


def test_lists_are_filtered_and_include_relations(client_of: ApiClient, customer: User, lamp: Product, part: Order):
    other = buy(customer, (lamp, 1))
    for order in (part, other):
        send(client_of, customer, "post", PATH, {"order_id": order.pk})

    def listed(**query: Any) -> list[dict[str, Any]]:
        return list(client_of(customer).get(PATH, query).json()["data"])

    assert [refund["order_id"] for refund in listed()] == [other.pk, part.pk]
    assert [refund["order_id"] for refund in listed(order_id=part.pk)] == [part.pk]
    assert [refund["order_id"] for refund in listed(shop_id=lamp.shop_id)] == [part.pk]
    assert [refund["order_id"] for refund in listed(search="status:approved")] == []
    record = listed(**{"with": "order;shop", "order_id": part.pk})[0]
    assert record["shop"]["name"] == "Corner"
    assert record["order"] == {
        "id": part.pk,
        "tracking_number": part.tracking_number,
        "order_status": "pending",
        "currency": "EUR",
        "total": 25.0,
        "refunded_total": 0.0,
    }


@pytest.mark.parametrize("key", ["9223372036854775808", "0", "9" * 40, "\u0661", "-1", "none"])
def test_i7_an_unknown_refund_is_404(client_of: ApiClient, admin: User, key: str):
    assert client_of(admin).get(f"{PATH}/{key}").status_code == 404
    assert send(client_of, admin, "put", f"{PATH}/{key}", {"status": "approved"}).status_code == 404


@pytest.mark.parametrize("name", ["limit", "shop_id", "order_id", "page"])
@pytest.mark.parametrize("value", ["-1", "0", "1e9", "abc", "9223372036854775808", "1" * 40, "\u0661", "\x00"])
def test_c7_numbers_in_the_query_are_never_a_server_error(client_of: ApiClient, admin: User, name: str, value: str):
    assert client_of(admin).get(PATH, {name: value}).status_code in (200, 422)


@pytest.mark.parametrize("rows", [10, 1000])
def test_c7_the_list_takes_as_many_queries_at_ten_rows_as_at_a_thousand(
    client_of: ApiClient,
    customer: User,
    lamp: Product,
    rows: int,
    django_assert_num_queries: DjangoAssertNumQueries,
):
    lines, statuses = (BulkOrderLine(lamp.shop_id, lamp.pk, 1, 1250),), {lamp.shop_id: "refunded"}
    now = timezone.now()
    past = (BulkOrder(customer.pk, now - timedelta(hours=n), "EUR", lines, statuses) for n in range(rows))
    list(insert_orders(past, random=Random(1)))
    client = client_of(customer)
    client.get(PATH)  # records the use of the key

    with django_assert_num_queries(2 + (rows > 10)):  # a count, if there is more than one page
        assert len(client.get(PATH, {"limit": 10}).json()["data"]) == 10
