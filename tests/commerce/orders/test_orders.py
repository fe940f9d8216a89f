"""GET, POST /api/orders; GET, PUT /api/orders/{id or tracking number}."""

import json
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from commerce.catalog.models import Product
from commerce.orders.bulk_insert import BulkOrder, BulkOrderLine, insert_orders
from commerce.orders.models import Order
from commerce.orders.services import request_refund
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key
from tests.commerce.catalog.factories import make_picture
from tests.commerce.conftest import ApiClient, make_user
from tests.commerce.orders.factories import buy, make_goods, make_variation, move, other_shop

PATH = "/api/orders"
RECORD = {
    "id", "tracking_number", "customer_id", "customer_contact", "order_status", "currency", "amount", "sales_tax",
    "delivery_fee", "discount", "paid_total", "total", "refunded_total", "shop_id", "parent_id", "payment_gateway",
    "billing_address", "shipping_address", "products", "created_at", "updated_at",
}  # fmt: skip
HOME = {"street_address": "Gasse 1", "city": "Wien", "country": "AT"}


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_goods(shop)


@pytest.fixture
def tent() -> Product:
    """Return a product of another shop."""
    return make_goods(other_shop(), "tent", price=9900)


@pytest.fixture
def order(customer: User, lamp: Product, tent: Product) -> Order:
    """Two lamps of `shop` and a tent of the other."""
    return buy(customer, (lamp, 2), (tent, 1))


def send(client_of: ApiClient, user: User | None, method: str, path: str, sent: Any = None) -> Any:
    return getattr(client_of(user), method)(path, sent, content_type="application/json")


def listed(client_of: ApiClient, user: User, **query: Any) -> list[int]:
    answer = client_of(user).get(PATH, query)
    assert answer.status_code == 200, answer.content
    return [order["id"] for order in answer.json()["data"]]


def columns(order: Order) -> dict[str, Any]:
    return dict(Order.objects.filter(pk=order.pk).values().get())


class TestPlacing:
    def test_a_customer_places_an_order(
        self, client_of: ApiClient, customer: User, lamp: Product, tent: Product, settings: Settings
    ):
        settings.TAX_RATE, settings.DELIVERY_FEE = 1000, 490
        lamp.image = make_picture(lamp.shop.owner)
        lamp.save()
        sent = {
            "products": [{"product_id": lamp.pk, "order_quantity": 2}, {"product_id": tent.pk, "order_quantity": 1}],
            "customer_contact": "+43 1 234",
            "payment_gateway": "CARD",
            "billing_address": HOME,
            "shipping_address": {},
        }

        answer = send(client_of, customer, "post", PATH, sent)

        assert answer.status_code == 201, answer.content
        record = answer.json()
        assert set(record) == RECORD | {"children", "customer", "customer_name"}
        sums = ("amount", "sales_tax", "delivery_fee", "discount", "total", "paid_total")
        assert [record[name] for name in sums] == [124.0, 12.4, 4.9, 0.0, 141.3, 141.3]
        assert (record["customer_id"], record["shop_id"], record["parent_id"]) == (customer.pk, None, None)
        assert (record["order_status"], record["currency"], record["payment_gateway"]) == ("pending", "EUR", "CARD")
        assert (record["billing_address"], record["shipping_address"]) == (HOME, {})
        assert [(part["shop_id"], part["total"], part["parent_id"]) for part in record["children"]] == [
            (lamp.shop_id, 25.0, record["id"]),
            (tent.shop_id, 99.0, record["id"]),
        ]
        assert set(record["children"][0]) == RECORD
        product = record["products"][0]
        assert (product["id"], product["name"], product["slug"]) == (lamp.pk, "Velmo lamp", "lamp")
        assert set(product["image"]) == {"id", "original", "thumbnail", "alt", "focal_point"}
        assert product["pivot"] == {
            "order_quantity": 2,
            "unit_price": 12.5,
            "subtotal": 25.0,
            "variation_option_id": None,
        }
        assert [product["id"] for product in record["products"]] == [lamp.pk, tent.pk]
        assert client_of(customer).get(f"{PATH}/{record['id']}").json() == record

    def test_prices_and_users_in_the_body_are_ignored(
        self, client_of: ApiClient, customer: User, admin: User, lamp: Product
    ):
        """C2."""
        line = {"product_id": lamp.pk, "order_quantity": 1, "unit_price": 0.01, "subtotal": 0.01, "id": 7}
        sent = {
            "products": [line],
            "id": 999,
            "customer_id": admin.pk,
            "order_status": "complete",
            "tracking_number": "S1",
            "amount": 0.01,
            "total": 0.01,
            "paid_total": 0.01,
            "discount": 12,
            "delivery_fee": 0,
            "parent_id": 1,
            "shop_id": lamp.shop_id,
            "currency": "JPY",
            "created_at": "2001-01-01T00:00:00Z",
        }

        record = send(client_of, customer, "post", PATH, sent).json()

        assert (record["amount"], record["total"], record["discount"], record["currency"]) == (12.5, 12.5, 0.0, "EUR")
        assert (record["customer_id"], record["order_status"], record["shop_id"]) == (customer.pk, "pending", None)
        assert record["tracking_number"] != "S1"
        assert record["id"] != 999
        assert not record["created_at"].startswith("2001")

    def test_a_variation_is_named_as_a_variation_option(self, client_of: ApiClient, customer: User, shop: Shop):
        shirt = make_goods(shop, "shirt", product_type=Product.Kind.VARIABLE)
        large = make_variation(shirt)
        line = {"product_id": shirt.pk, "order_quantity": 1, "variation_option_id": large.pk}

        record = send(client_of, customer, "post", PATH, {"products": [line]}).json()

        assert record["products"][0]["pivot"]["variation_option_id"] == large.pk
        assert record["total"] == 20.0

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"products": None}, "products"),
            ({"products": []}, "products.non_field_errors"),
            ({"products": [1]}, "products.0.non_field_errors"),
            ({"products": [{"product_id": 1, "order_quantity": 1}] * 101}, "products.non_field_errors"),
            ({"products": [{"order_quantity": 1}]}, "products.0.product_id"),
            ({"products": [{"product_id": 2**63, "order_quantity": 1}]}, "products.0.product_id"),
            ({"products": [{"product_id": -1, "order_quantity": 1}]}, "products.0.product_id"),
            ({"products": [{"product_id": 2**63 - 1, "order_quantity": 1}]}, "products.0.product_id"),
            ({"products": [{"product_id": 1, "order_quantity": 0}]}, "products.0.order_quantity"),
            ({"products": [{"product_id": 1, "order_quantity": 10_001}]}, "products.0.order_quantity"),
            ({"products": [{"product_id": 1, "order_quantity": 1.5}]}, "products.0.order_quantity"),
            ({"customer_contact": "1" * 65}, "customer_contact"),
            ({"payment_gateway": "no spaces"}, "payment_gateway"),
            ({"billing_address": [1]}, "billing_address"),
            ({"shipping_address": {"a": "x" * 17_000}}, "shipping_address"),
        ],
    )
    def test_invalid_fields_are_422_by_name(
        self, client_of: ApiClient, customer: User, lamp: Product, change: dict[str, Any], field: str
    ):
        sent = {"products": [{"product_id": lamp.pk, "order_quantity": 1}]} | change

        answer = send(client_of, customer, "post", PATH, sent)

        assert answer.status_code == 422, answer.content
        assert list(answer.json()["errors"]) == [field]
        assert not Order.objects.exists()

    def test_lines_out_of_stock_are_422_by_line(self, client_of: ApiClient, customer: User, lamp: Product):
        line = {"product_id": lamp.pk, "order_quantity": 101}

        answer = send(client_of, customer, "post", PATH, {"products": [line]})

        assert (answer.status_code, list(answer.json()["errors"])) == (422, ["products.0"])

    @pytest.mark.parametrize("body", ["[]", "1", '"x"', "null", "{"])
    def test_a_body_that_is_not_an_object_is_a_client_error(self, client_of: ApiClient, customer: User, body: str):
        answer = client_of(customer).post(PATH, body, content_type="application/json")

        assert answer.status_code in (400, 422)

    def test_every_user_may_order_except_by_a_restricted_key(
        self, client_of: ApiClient, owner: User, staff: User, admin: User, lamp: Product
    ):
        sent = {"products": [{"product_id": lamp.pk, "order_quantity": 1}]}
        for user in (owner, staff, admin):
            assert send(client_of, user, "post", PATH, sent).status_code == 201
        assert send(client_of, None, "post", PATH, sent).status_code == 401
        key = create_api_key(user=owner, name="narrow", permissions=["run_inference"], now=timezone.now())[1]
        answer = client_of(None).post(
            PATH, json.dumps(sent), content_type="application/json", headers={"Authorization": f"Bearer {key}"}
        )
        assert answer.status_code == 403

    def test_an_order_repeated_with_its_idempotency_key_is_placed_once(
        self, client_of: ApiClient, customer: User, lamp: Product
    ):
        sent = json.dumps({"products": [{"product_id": lamp.pk, "order_quantity": 1}]})
        client = client_of(customer)

        answers = [
            client.post(PATH, sent, content_type="application/json", headers={"Idempotency-Key": "cart-1"})
            for _ in range(3)
        ]

        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert Order.objects.filter(parent=None).count() == 1


class TestReading:
    def test_a_customer_lists_their_parent_orders_newest_first(
        self, client_of: ApiClient, customer: User, lamp: Product, order: Order
    ):
        second = buy(customer, (lamp, 1))
        buy(make_user(Role.CUSTOMER, "other"), (lamp, 1))

        assert listed(client_of, customer) == [second.pk, order.pk]

    def test_shop_members_list_child_orders_by_shop_id(
        self, client_of: ApiClient, shop: Shop, owner: User, staff: User, admin: User, customer: User, order: Order
    ):
        part = order.children.get(shop=shop)

        for user in (owner, staff, admin):
            assert listed(client_of, user, shop_id=shop.pk) == [part.pk]
        assert listed(client_of, owner) == []
        assert listed(client_of, admin) == [order.pk]
        foreign = order.children.exclude(pk=part.pk).get()
        for user in (owner, staff, customer):
            assert listed(client_of, user, shop_id=foreign.shop_id) == []

    def test_c1_only_the_customer_and_the_shops_read_an_order(
        self, client_of: ApiClient, shop: Shop, owner: User, staff: User, admin: User, customer: User, order: Order
    ):
        part = order.children.get(shop=shop)
        foreign = order.children.exclude(pk=part.pk).get()
        assert foreign.shop is not None
        readers = {
            order: {customer, admin},
            part: {customer, admin, owner, staff},
            foreign: {customer, admin, foreign.shop.owner},
        }
        everybody = {customer, admin, owner, staff, foreign.shop.owner, make_user(Role.CUSTOMER, "other")}
        for row, may in readers.items():
            for key in (row.pk, row.tracking_number):
                answers = {user: client_of(user).get(f"{PATH}/{key}") for user in everybody}
                assert {user for user, answer in answers.items() if answer.status_code == 200} == may
                assert {answer.status_code for answer in answers.values()} == {200, 404}
        assert client_of(None).get(f"{PATH}/{part.pk}").status_code == 401

    def test_c5_anonymous_users_and_users_without_a_shop_see_nothing(
        self, client_of: ApiClient, customer: User, order: Order
    ):
        """A parent order has no shop, so it must not match a user without one."""
        request_refund(customer=customer, order_id=order.pk, amount=None, reason="", now=timezone.now())
        for role in (Role.STAFF, Role.STORE_OWNER):
            shopless = make_user(role, "shopless")
            for path in (PATH, "/api/refunds"):
                assert client_of(shopless).get(path).json()["data"] == []
                assert client_of(shopless).get(path, {"search": f"shop_id:{order.pk}"}).json()["data"] == []
            assert client_of(shopless).get(f"{PATH}/{order.pk}").status_code == 404
        for header in ("Bearer", "Bearer ", "", "Bearer null"):
            assert client_of(None).get(PATH, headers={"Authorization": header}).status_code == 401

    def test_a_child_order_has_products_and_no_children(
        self, client_of: ApiClient, owner: User, shop: Shop, lamp: Product, order: Order
    ):
        part = order.children.get(shop=shop)

        record = client_of(owner).get(f"{PATH}/{part.tracking_number}").json()

        assert (record["id"], record["parent_id"], record["children"]) == (part.pk, order.pk, [])
        assert [product["id"] for product in record["products"]] == [lamp.pk]

    def test_with_includes_shop_and_customer(
        self, client_of: ApiClient, customer: User, owner: User, shop: Shop, order: Order
    ):
        part = order.children.get(shop=shop)

        record = client_of(owner).get(f"{PATH}/{part.pk}", {"with": "shop;customer"}).json()
        assert record["shop"] == {"id": shop.pk, "name": "Corner", "slug": "corner", "logo": None}
        assert record["customer"] == {"id": customer.pk, "name": customer.name, "email": customer.email}
        assert client_of(customer).get(f"{PATH}/{order.pk}", {"with": "status"}).json()["status"] == {
            "id": 1,
            "name": "Pending",
            "slug": "pending",
            "serial": 1,
            "color": "#d97706",
        }
        whole = client_of(customer).get(PATH, {"with": "products;children.shop"}).json()["data"][0]
        assert [child["shop"]["name"] for child in whole["children"]] == ["Corner", "Other"]
        assert client_of(customer).get(PATH, {"with": "customer.api_keys"}).json()["data"][0]["customer"] == {
            "id": customer.pk,
            "name": customer.name,
            "email": customer.email,
        }

    def test_lists_are_searched_and_ordered(self, client_of: ApiClient, customer: User, lamp: Product, tent: Product):
        cheap, dear = buy(customer, (lamp, 1)), buy(customer, (tent, 1))
        move(dear.children.select_related("shop__owner").get(), "complete")

        assert listed(client_of, customer, search="order_status:complete") == [dear.pk]
        assert listed(client_of, customer, search=f"tracking_number:{cheap.tracking_number}") == [cheap.pk]
        assert listed(client_of, customer, orderBy="total", sortedBy="asc") == [cheap.pk, dear.pk]
        assert listed(client_of, customer, orderBy="total", sortedBy="desc") == [dear.pk, cheap.pk]

    @pytest.mark.parametrize(
        "key", ["9223372036854775808", "0", "9" * 40, "\u0661", "-1", "none", "S" + "0" * 19, "s", "a" * 5000]
    )
    def test_i7_an_unknown_order_is_404(self, client_of: ApiClient, admin: User, order: Order, key: str):
        assert client_of(admin).get(f"{PATH}/{key}").status_code == 404
        assert send(client_of, admin, "put", f"{PATH}/{key}", {"order_status": "complete"}).status_code == 404

    @pytest.mark.parametrize("name", ["limit", "shop_id", "page"])
    @pytest.mark.parametrize("value", ["-1", "0", "1e9", "abc", "9223372036854775808", "1" * 40, "\u0661", "\x00"])
    def test_c7_numbers_in_the_query_are_never_a_server_error(
        self, client_of: ApiClient, customer: User, order: Order, name: str, value: str
    ):
        answer = client_of(customer).get(PATH, {name: value})

        assert answer.status_code == 422 or (
            answer.status_code == 200 and (name != "shop_id" or not answer.json()["data"])
        )

    @pytest.mark.parametrize("rows", [10, 1000])
    def test_c7_a_list_takes_as_many_queries_at_ten_rows_as_at_a_thousand(
        self,
        client_of: ApiClient,
        customer: User,
        owner: User,
        lamp: Product,
        tent: Product,
        rows: int,
        django_assert_num_queries: DjangoAssertNumQueries,
    ):
        lines = (BulkOrderLine(lamp.shop_id, lamp.pk, 1, 1250), BulkOrderLine(tent.shop_id, tent.pk, 1, 9900))
        statuses = {lamp.shop_id: "complete", tent.shop_id: "complete"}
        now = timezone.now()
        past = (BulkOrder(customer.pk, now - timedelta(hours=n), "EUR", lines, statuses) for n in range(rows))
        list(insert_orders(past, random=Random(1)))
        for user, query, expected in [
            (customer, {"limit": 10}, 6 + (rows > 10)),  # a count, if there is more than one page
            (owner, {"limit": 10, "shop_id": lamp.shop_id}, 5 + (rows > 10)),
        ]:
            client = client_of(user)
            client.get(PATH)  # records the use of the key
            with django_assert_num_queries(expected):
                assert len(client.get(PATH, query).json()["data"]) == 10

    def test_a_page_of_the_largest_orders_ends_at_4_mib_and_names_the_rest(
        self, client_of: ApiClient, customer: User, lamp: Product, tent: Product
    ):
        lines = tuple(BulkOrderLine(item.shop_id, item.pk, 1, 1250) for item in (lamp, tent) for _ in range(50))
        statuses = {lamp.shop_id: "complete", tent.shop_id: "complete"}
        now = timezone.now()
        past = (BulkOrder(customer.pk, now - timedelta(hours=n), "EUR", lines, statuses) for n in range(70))
        list(insert_orders(past, random=Random(1)))
        sizes, url = [], f"{PATH}?limit=100&with=products.variation_options"

        while url:
            answer = client_of(customer).get(url.removeprefix("http://testserver"))
            assert len(answer.content) < 4.2 * 1024 * 1024
            page = answer.json()
            assert page["from"] == sum(sizes) + 1
            sizes.append(len(page["data"]))
            url = page["next_page_url"]

        assert sum(sizes) == page["total"] == 70
        assert 30 < sizes[0] < 60

    def test_the_addresses_of_orders_count_for_the_size_of_a_page(
        self, client_of: ApiClient, customer: User, lamp: Product, tent: Product
    ):
        lines = tuple(BulkOrderLine(item.shop_id, item.pk, 1, 1250) for item in (lamp, tent))
        statuses = {lamp.shop_id: "complete", tent.shop_id: "complete"}
        now = timezone.now()
        past = (BulkOrder(customer.pk, now - timedelta(hours=n), "EUR", lines, statuses) for n in range(50))
        list(insert_orders(past, random=Random(1)))
        address = {"street_address": "x" * 16_000}
        Order.objects.update(billing_address=address, shipping_address=address)

        sizes = [order.response_size for order in Order.objects.filter(parent=None).with_response_size()]
        page = client_of(customer).get(PATH, {"limit": 100}).json()

        fitting = 4 * 1024 * 1024 // sizes[0]
        assert 100_000 < min(sizes) <= max(sizes) < 105_000
        assert (len(page["data"]), page["total"], page["to"]) == (fitting, 50, fitting)
        assert page["next_page_url"].endswith(f"offset={fitting}")

    def test_an_empty_page_names_no_next_one(self, client_of: ApiClient, customer: User, order: Order):
        page = client_of(customer).get(PATH, {"page": 2}).json()

        assert (page["data"], page["next_page_url"]) == ([], None)

    def test_a_product_is_the_same_in_the_whole_order_and_in_its_part(
        self, client_of: ApiClient, customer: User, order: Order
    ):
        query = {"with": "products.variation_options"}
        whole = client_of(customer).get(f"{PATH}/{order.tracking_number}", query).json()
        parts = [product for part in whole["children"] for product in part["products"]]
        shown = [
            {name: product[name] for name in product if name != "variation_options"} for product in whole["products"]
        ]

        assert parts == shown
        assert all(product["variation_options"] == [] for product in whole["products"])


class TestMoving:
    def test_a_shop_changes_the_status_of_its_child_order(
        self, client_of: ApiClient, owner: User, staff: User, shop: Shop, order: Order
    ):
        part = order.children.get(shop=shop)

        first = send(client_of, staff, "put", f"{PATH}/{part.pk}", {"order_status": "processing"})
        second = send(client_of, owner, "put", f"{PATH}/{part.tracking_number}", {"order_status": "complete"})

        assert (first.status_code, first.json()["order_status"]) == (200, "processing")
        assert (second.status_code, second.json()["order_status"]) == (200, "complete")
        order.refresh_from_db()
        assert order.order_status == "pending"

    @pytest.mark.parametrize("status", ["refunded", "Complete", "", None, 7, ["complete"]])
    def test_a_forbidden_transition_is_422(
        self, client_of: ApiClient, owner: User, shop: Shop, order: Order, status: Any
    ):
        part = order.children.get(shop=shop)

        answer = send(client_of, owner, "put", f"{PATH}/{part.pk}", {"order_status": status})

        assert (answer.status_code, list(answer.json()["errors"])) == (422, ["order_status"])

    def test_c1_c2_only_the_shop_changes_the_status_and_only_the_status(
        self, client_of: ApiClient, owner: User, admin: User, customer: User, shop: Shop, order: Order
    ):
        part = order.children.get(shop=shop)
        stranger = order.children.exclude(pk=part.pk).get().shop
        assert stranger is not None
        before = columns(part)
        sent = {"order_status": "processing", "total": 1, "customer_id": admin.pk, "shop_id": stranger.pk, "id": 1}

        assert send(client_of, None, "put", f"{PATH}/{part.pk}", sent).status_code == 401
        assert send(client_of, customer, "put", f"{PATH}/{part.pk}", sent).status_code == 403
        assert send(client_of, stranger.owner, "put", f"{PATH}/{part.pk}", sent).status_code == 404
        assert send(client_of, owner, "put", f"{PATH}/{order.pk}", sent).status_code == 404
        assert send(client_of, admin, "put", f"{PATH}/{order.pk}", sent).status_code == 422
        assert columns(part) == before
        assert send(client_of, owner, "put", f"{PATH}/{part.pk}", sent).status_code == 200
        after = columns(part)
        assert {name for name in before if before[name] != after[name]} == {"order_status", "updated_at"}
