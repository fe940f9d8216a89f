"""Refunds: requests and decisions."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from commerce.analytics.aggregation.batches import aggregate_ledger
from commerce.analytics.aggregation.reconcile import find_differences
from commerce.catalog.models import Product
from commerce.orders.models import Order, OrderLine, Refund
from commerce.orders.services import decide_refund, request_refund
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError, ValidationFailed
from tests.commerce.conftest import make_user
from tests.commerce.orders.factories import buy, make_goods, move, other_shop

pytestmark = pytest.mark.django_db


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_goods(shop)


@pytest.fixture
def parent(lamp: Product, customer: User, settings: Settings) -> Order:
    """An order with 25.00 from the shop, 12.50 from another, and a delivery fee of 5.00."""
    settings.DELIVERY_FEE = 500
    return buy(customer, (lamp, 2), (make_goods(other_shop(), "tent"), 1))


@pytest.fixture
def child(parent: Order, shop: Shop) -> Order:
    """The child order of 25.00."""
    return parent.children.get(shop=shop)


def ask_back(order: Order, amount: int | None = None, customer: User | None = None) -> Refund:
    return request_refund(
        customer=customer or order.customer, order_id=order.pk, amount=amount, reason="Broken.", now=timezone.now()
    )


def decide(refund: Refund, status: str, actor: User) -> Refund:
    return decide_refund(refund_id=refund.pk, status=status, actor=actor, now=timezone.now())


def give_back(order: Order, amount: int | None = None) -> Refund:
    admin = User.objects.filter(role=Role.SUPER_ADMIN).first() or make_user(Role.SUPER_ADMIN, "giver")
    return decide(ask_back(order, amount), "approved", admin)


def status_of(refusal: "pytest.ExceptionInfo[ApiError]") -> int:
    return refusal.value.problem.status


def figures(*orders: Order) -> list[tuple[str, int]]:
    for order in orders:
        order.refresh_from_db()
    return [(order.order_status, order.refunded_total) for order in orders]


def test_a_customer_requests_a_full_or_partial_refund(child: Order, shop: Shop):
    refund = ask_back(child, 500)

    assert (refund.order, refund.shop, refund.amount, refund.status) == (child, shop, 500, "requested")
    Refund.objects.all().delete()
    assert ask_back(child).amount == 2500


def test_a_partial_refund_is_summed_in_the_tree_and_changes_no_status(parent: Order, child: Order):
    give_back(child, 1000)

    assert figures(child, parent) == [("pending", 1000), ("pending", 1000)]


def test_a_full_refund_sets_the_status_and_returns_the_stock(parent: Order, child: Order, lamp: Product):
    move(child, "complete")
    give_back(child, 1000)
    give_back(child)

    assert figures(child, parent) == [("refunded", 2500), ("pending", 2500)]
    lamp.refresh_from_db()
    assert (lamp.quantity, lamp.sold_quantity) == (100, 0)


def test_a_cancelled_order_can_be_refunded_and_stays_cancelled(child: Order, lamp: Product):
    move(child, "cancelled")
    give_back(child)

    assert figures(child) == [("cancelled", 2500)]
    lamp.refresh_from_db()
    assert lamp.quantity == 100


def test_the_platform_refunds_a_whole_tree(parent: Order, child: Order, lamp: Product):
    give_back(child, 100)
    refund = give_back(parent)

    assert (refund.amount, refund.shop) == (4150, None)
    assert figures(parent, *parent.children.order_by("pk")) == [("refunded", 4250), ("refunded", 100), ("refunded", 0)]
    lamp.refresh_from_db()
    assert lamp.quantity == 100


def test_a_shop_cannot_refund_what_the_platform_refunded(parent: Order, child: Order):
    give_back(parent, 4000)

    with pytest.raises(ValidationFailed, match=r"At most 2\.50 EUR"):
        ask_back(child, 251)
    give_back(child, 250)
    assert figures(parent) == [("refunded", 4250)]
    with pytest.raises(ValidationFailed, match="refunded already"):
        ask_back(child)


@pytest.mark.parametrize("platform_is_last", [False, True], ids=["the shop is last", "the platform is last"])
def test_platform_and_shop_refunds_together_refund_the_whole_order(
    parent: Order, child: Order, lamp: Product, *, platform_is_last: bool
):
    other = parent.children.exclude(pk=child.pk).get()
    for part in (child, other):
        move(part, "complete")
    payments = [(child, 1500), (parent, 2750)]
    first, last = payments if platform_is_last else payments[::-1]

    give_back(*first)
    assert [status for status, _ in figures(parent, child, other)] == ["complete"] * 3
    give_back(*last)

    assert figures(parent, child, other) == [("refunded", 4250), ("refunded", 1500), ("refunded", 0)]
    for goods in (lamp, Product.objects.get(slug="tent")):
        goods.refresh_from_db()
        assert (goods.quantity, goods.sold_quantity) == (100, 0)
    assert find_differences() == []
    aggregate_ledger(now=timezone.now())
    assert find_differences() == []


def test_a_free_child_order_keeps_its_status_when_another_is_refunded(lamp: Product, customer: User):
    gift = make_goods(other_shop(), "gift", price=0)
    parent = buy(customer, (lamp, 2), (gift, 1))
    paid, free = parent.children.order_by("-paid_total")

    give_back(paid, 100)
    assert figures(paid, free) == [("pending", 100), ("pending", 0)]
    give_back(paid)
    assert figures(parent, paid) == [("refunded", 2500), ("refunded", 2500)]


def test_an_order_without_children_is_refunded_and_keeps_its_status(parent: Order):
    OrderLine.objects.all().delete()
    parent.children.all().delete()

    assert give_back(parent, 1).status == "approved"
    assert figures(parent) == [("pending", 1)]
    give_back(parent)
    assert figures(parent) == [("pending", parent.paid_total)]


@pytest.mark.parametrize("amount", [2501, 10**15])
def test_a_refund_never_exceeds_what_was_paid(child: Order, amount: int):
    with pytest.raises(ValidationFailed, match=r"At most 25\.00 EUR"):
        ask_back(child, amount)
    assert not Refund.objects.exists()


def test_an_order_has_one_open_refund_at_a_time(child: Order, owner: User):
    first = ask_back(child, 1)
    with pytest.raises(ApiError) as refusal:
        ask_back(child, 1)
    assert status_of(refusal) == 409

    decide(first, "rejected", owner)
    assert figures(child) == [("pending", 0)]
    assert ask_back(child, 2).status == "requested"


def test_a_decision_is_made_once(child: Order, owner: User):
    refund = ask_back(child, 100)
    decide(refund, "approved", owner)
    for again in ("approved", "rejected"):
        with pytest.raises(ValidationFailed, match="decided already"):
            decide(refund, again, owner)

    assert figures(child) == [("pending", 100)]


def test_c1_another_users_order_does_not_exist(child: Order, owner: User, admin: User):
    for stranger in (make_user(Role.CUSTOMER, "other"), owner, admin):
        with pytest.raises(ApiError) as refusal:
            ask_back(child, 1, stranger)
        assert status_of(refusal) == 404


def test_owners_decide_refunds_of_children_and_the_platform_those_of_parents(
    parent: Order, child: Order, owner: User, staff: User, customer: User, admin: User
):
    of_shop, of_platform = ask_back(child, 1), ask_back(parent, 1)
    other_owner = parent.children.exclude(pk=child.pk).get().shop
    assert other_owner is not None
    refused = [(of_shop, staff), (of_shop, customer), (of_shop, other_owner.owner), (of_platform, owner)]
    for refund, actor in refused:
        with pytest.raises(ApiError) as refusal:
            decide(refund, "approved", actor)
        assert status_of(refusal) == 404

    assert decide(of_shop, "approved", owner).status == "approved"
    assert decide(of_platform, "approved", admin).status == "approved"
    assert figures(parent) == [("pending", 2)]


@pytest.mark.django_db(transaction=True)
def test_concurrent_approvals_never_refund_more_than_was_paid(parent: Order, child: Order, admin: User):
    refunds = [ask_back(parent, 4000), *(ask_back(part) for part in parent.children.all())]
    together = threading.Barrier(12)

    def approve(refund: Refund) -> int:
        together.wait(timeout=60)
        try:
            return decide(refund, "approved", admin).amount
        except ValidationFailed:
            return 0
        finally:
            connection.close()

    with ThreadPoolExecutor(12) as pool:
        given = sum(pool.map(approve, refunds * 4))

    approved = sum(Refund.objects.filter(status="approved").values_list("amount", flat=True))
    assert figures(parent)[0][1] == given == approved <= 4250
    assert given in (4000, 3750)
