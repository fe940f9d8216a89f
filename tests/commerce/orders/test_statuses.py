"""Order statuses: allowed transitions and users, the parent's status, and the stock."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import product as pairs

import pytest
from django.db import connection
from django.utils import timezone

from commerce.catalog.models import Product
from commerce.orders.models import Order
from commerce.orders.services import change_order_status
from commerce.orders.statuses import parent_status
from commerce.reviews.services import write_review
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError, ValidationFailed
from tests.commerce.conftest import make_user
from tests.commerce.orders.factories import buy, make_goods, make_variation, move, other_shop

pytestmark = pytest.mark.django_db

# The expected transitions, independent of the table in the code.
ALLOWED = {
    "pending": "processing at-local-facility out-for-delivery complete cancelled failed",
    "processing": "at-local-facility out-for-delivery complete cancelled failed",
    "at-local-facility": "out-for-delivery complete cancelled failed",
    "out-for-delivery": "at-local-facility complete cancelled failed",
    "complete": "",
    "cancelled": "",
    "failed": "",
    "refunded": "",
}


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_goods(shop)


@pytest.fixture
def child(lamp: Product, customer: User) -> Order:
    return buy(customer, (lamp, 5)).children.get()


def stock_of(product: Product) -> tuple[int, int]:
    product.refresh_from_db()
    return product.quantity, product.sold_quantity


@pytest.mark.parametrize(("old", "new"), list(pairs(ALLOWED, ALLOWED)))
def test_only_transitions_of_the_table_are_allowed(child: Order, old: str, new: str):
    Order.objects.filter(pk=child.pk).update(order_status=old)
    if new in ALLOWED[old].split() or new == old:
        assert move(child, new).order_status == new
        return
    with pytest.raises(ValidationFailed) as refusal:
        move(child, new)
    assert list(refusal.value.problem.errors or ()) == ["order_status"]
    child.refresh_from_db()
    assert child.order_status == old


@pytest.mark.parametrize("status", ["", "Complete", "shipped", "x" * 1000])
def test_an_unknown_status_is_refused(child: Order, status: str):
    with pytest.raises(ValidationFailed):
        move(child, status)


@pytest.mark.parametrize(
    ("children", "parent"),
    [
        ({"pending"}, "pending"),
        ({"complete"}, "complete"),
        ({"complete", "pending"}, "pending"),
        ({"complete", "out-for-delivery", "at-local-facility"}, "at-local-facility"),
        ({"complete", "cancelled", "refunded", "failed"}, "complete"),
        ({"processing", "failed"}, "processing"),
        ({"cancelled", "failed"}, "failed"),
        ({"cancelled", "refunded", "failed"}, "refunded"),
        ({"cancelled"}, "cancelled"),
    ],
)
def test_a_parent_has_the_status_of_its_child_furthest_behind(children: set[str], parent: str):
    assert parent_status(children) == parent


def test_the_parents_status_follows_its_children(lamp: Product, customer: User):
    parent = buy(customer, (lamp, 1), (make_goods(other_shop(), "tent"), 1))
    first, second = parent.children.order_by("shop")

    seen = []
    for order, status in [(first, "complete"), (second, "processing"), (second, "cancelled")]:
        move(order, status)
        parent.refresh_from_db()
        seen.append(parent.order_status)

    assert seen == ["pending", "processing", "complete"]
    second.refresh_from_db()
    assert (second.order_status, second.updated_at > second.created_at) == ("cancelled", True)


def test_undelivered_products_return_to_stock_once(shop: Shop, customer: User):
    lamp = make_goods(shop, product_type=Product.Kind.VARIABLE)
    large = make_variation(lamp)
    child = buy(customer, (lamp, 4, large)).children.get()
    assert stock_of(lamp) == (96, 4)

    for _ in range(2):
        move(child, "cancelled")

    assert stock_of(lamp) == (100, 0)
    large.refresh_from_db()
    assert (large.quantity, large.sold_quantity) == (10, 0)


def test_products_of_complete_orders_stay_sold(child: Order, lamp: Product):
    move(child, "processing")
    move(child, "complete")

    assert stock_of(lamp) == (95, 5)


def test_only_shop_members_and_super_admins_change_a_status(child: Order, owner: User, staff: User, admin: User):
    move(child, "processing", staff)
    move(child, "out-for-delivery", admin)
    assert move(child, "complete", owner).order_status == "complete"


def test_c1_another_shops_order_does_not_exist(child: Order, customer: User):
    for stranger in (other_shop().owner, make_user(Role.STAFF, "jobless"), make_user(Role.CUSTOMER, "x"), customer):
        with pytest.raises(ApiError) as refusal:
            move(child, "processing", stranger)
        assert refusal.value.problem.status == 404

    child.refresh_from_db()
    assert child.order_status == "pending"


def test_the_status_of_a_parent_cannot_be_set(child: Order, admin: User, owner: User):
    def set_parent(actor: User) -> int:
        with pytest.raises(ApiError) as refusal:
            change_order_status(order_id=child.parent_id or 0, status="complete", actor=actor, now=timezone.now())
        return refusal.value.problem.status

    assert set_parent(admin) == 422
    assert set_parent(owner) == 404


@pytest.mark.django_db(transaction=True)
def test_one_of_twenty_concurrent_cancellations_and_deliveries_succeeds(child: Order, lamp: Product):
    together = threading.Barrier(20)

    def end(number: int) -> str | None:
        together.wait(timeout=60)
        status = "cancelled" if number % 2 else "complete"
        try:
            return move(child, status).order_status
        except ValidationFailed:
            return None
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as pool:
        ends = set(pool.map(end, range(20))) - {None}

    child.refresh_from_db()
    assert ends == {child.order_status}
    assert stock_of(lamp) == ((100, 0) if child.order_status == "cancelled" else (95, 5))


@pytest.mark.django_db(transaction=True)
def test_two_shops_completing_concurrently_complete_the_parent(lamp: Product, customer: User):
    tent = make_goods(other_shop(), "tent")
    for _ in range(5):
        parent = buy(customer, (lamp, 1), (tent, 1))
        together = threading.Barrier(2)

        def finish(order: Order, together: threading.Barrier = together) -> None:
            together.wait(timeout=60)
            try:
                move(order, "complete")
            finally:
                connection.close()

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(finish, parent.children.select_related("shop__owner")))
        parent.refresh_from_db()
        assert parent.order_status == "complete"


@pytest.mark.django_db(transaction=True)
def test_a_review_and_a_cancellation_of_one_order_do_not_deadlock(child: Order, lamp: Product):
    children = [child, *(buy(child.customer, (lamp, 1)).children.get() for _ in range(9))]
    together = threading.Barrier(20)

    def review(order: Order) -> None:
        together.wait(timeout=60)
        try:
            write_review(user=order.customer, product_id=lamp.pk, rating=3, order_id=order.pk, now=timezone.now())
        finally:
            connection.close()

    def cancel(order: Order) -> None:
        together.wait(timeout=60)
        try:
            move(order, "cancelled")
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as pool:
        work = [pool.submit(act, order) for order in children for act in (review, cancel)]
    for done in work:
        done.result()

    lamp.refresh_from_db()
    assert (lamp.rating_count, lamp.quantity) == (10, 100)
