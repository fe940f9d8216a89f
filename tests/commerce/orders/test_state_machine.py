"""Random walk of a customer and two shops: stock, totals and refunds agree with a model after every step."""

from typing import Any

from django.db.models import Sum
from django.test import Client
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from commerce.catalog.models import Product
from commerce.orders.models import Order, OrderLine, Refund
from commerce.shops.models import Shop
from shared.accounts.roles import Role
from tests.commerce.conftest import bearer, make_user
from tests.commerce.orders.factories import make_goods, other_shop
from tests.commerce.state_machines import Walk, ask, walk

STOCK = 12
BACK_IN_STOCK = {"cancelled", "failed", "refunded"}
PICK = st.integers(0, 1000)


class OrderWalk(Walk):
    """The model is the expected stock of each product."""

    @initialize()
    def two_shops(self) -> None:
        self.shops: list[Shop] = [other_shop("one"), other_shop("two")]
        self.products: list[Product] = [make_goods(shop, shop.slug, quantity=STOCK) for shop in self.shops]
        self.left = [STOCK, STOCK]
        self.customer = Client(headers=bearer(make_user(Role.CUSTOMER)))
        self.owners = [Client(headers=bearer(shop.owner)) for shop in self.shops]
        self.admin = Client(headers=bearer(make_user(Role.SUPER_ADMIN)))

    @rule(quantities=st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(any))
    def order(self, quantities: tuple[int, int]) -> None:
        lines = [
            {"product_id": product.pk, "order_quantity": quantity}
            for product, quantity in zip(self.products, quantities, strict=True)
            if quantity
        ]
        status, told = ask(self.customer, "post", "orders", {"products": lines})
        enough = all(quantity <= left for quantity, left in zip(quantities, self.left, strict=True))
        assert status == (201 if enough else 422)
        if enough:
            assert told["total"] == sum(quantities) * 12.5
            self.left = [left - quantity for quantity, left in zip(quantities, self.left, strict=True)]

    @precondition(lambda self: Order.objects.exists())
    @rule(pick=PICK, status=st.sampled_from(Order.Status.values))
    def move(self, pick: int, status: str) -> None:
        part = self.one(Order.objects.filter(shop__isnull=False), pick)
        assert part.shop is not None
        before = part.order_status
        answered, _ = ask(
            self.owners[self.shops.index(part.shop)], "put", f"orders/{part.pk}", {"order_status": status}
        )
        part.refresh_from_db()
        assert part.order_status == (status if answered == 200 else before)
        if answered == 200 and status in BACK_IN_STOCK - {before}:
            self.put_back(part)

    @precondition(lambda self: Order.objects.exists())
    @rule(pick=PICK, quarters=st.integers(1, 5))
    def ask_back(self, pick: int, quarters: int) -> None:
        order = self.one(Order.objects.all(), pick)
        open_already = order.refunds.filter(status="requested").exists()
        status, told = ask(
            self.customer, "post", "refunds", {"order_id": order.pk, "amount": order.total * quarters / 400}
        )
        if status == 201:
            assert not open_already
            assert told["amount"] * 100 <= order.paid_total - order.refunded_total
        else:
            assert status in ({409, 422} if open_already else {422})

    @precondition(lambda self: Refund.objects.filter(status="requested").exists())
    @rule(pick=PICK, decision=st.sampled_from(["approved", "approved", "rejected"]))
    def decide(self, pick: int, decision: str) -> None:
        refund = self.one(Refund.objects.filter(status="requested"), pick)
        parts = list((refund.order.parent or refund.order).children.all())
        before = {part.pk: part.order_status for part in parts}
        status, _ = ask(self.admin, "put", f"refunds/{refund.pk}", {"status": decision})
        refund.refresh_from_db()
        assert refund.status == (decision if status == 200 else "requested")
        for part in parts:
            part.refresh_from_db()
            if part.order_status == "refunded" != before[part.pk]:
                assert before[part.pk] not in BACK_IN_STOCK
                self.put_back(part)

    @invariant()
    def the_shelf_is_right(self) -> None:
        for product, left in zip(getattr(self, "products", []), getattr(self, "left", []), strict=True):
            product.refresh_from_db()
            assert (product.quantity, product.sold_quantity) == (left, STOCK - left)

    @invariant()
    def every_tree_adds_up(self) -> None:
        for parent in Order.objects.filter(parent=None).prefetch_related("children__lines"):
            parts = list(parent.children.all())
            assert parent.amount == sum(part.amount for part in parts)
            assert all(part.amount == sum(line.subtotal for line in part.lines.all()) for part in parts)
            states = {part.order_status for part in parts}
            assert parent.order_status in states
            assert (parent.order_status == "complete") == (
                bool(states & {"complete"}) and states <= BACK_IN_STOCK | {"complete"}
            )

    @invariant()
    def what_was_given_back_is_what_was_approved(self) -> None:
        approved = Refund.objects.filter(status="approved")
        for order in Order.objects.all():
            own = approved.filter(order=order)
            given = own | approved.filter(order__parent=order) if order.is_parent else own
            assert order.refunded_total == (given.aggregate(sum=Sum("amount"))["sum"] or 0) <= order.paid_total
            if order.refunded_total == order.paid_total:
                assert {part.order_status for part in order.children.all() or [order]} <= BACK_IN_STOCK

    def put_back(self, part: Order) -> None:
        for line in OrderLine.objects.filter(order=part):
            self.left[self.products.index(line.product)] += line.quantity

    @staticmethod
    def one(rows: Any, pick: int) -> Any:
        known = list(rows.order_by("pk"))
        return known[pick % len(known)]


def test_stock_totals_and_refunds_agree_after_random_actions(db: None):
    walk(OrderWalk)
