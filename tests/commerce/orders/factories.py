"""Factories of orders, which are placed through the services."""

from typing import Any

from django.utils import timezone

from commerce.catalog.models import Product, Variation
from commerce.orders.models import Order
from commerce.orders.pricing import RequestedLine
from commerce.orders.services import DeliveryDetails, change_order_status, place_order
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import make_user

Goods = tuple[Product, int] | tuple[Product, int, Variation]


def make_goods(shop: Shop, slug: str = "lamp", **fields: Any) -> Product:
    """A published product of 12.50 with 100 in stock."""
    return make_product(shop, slug, **{"status": Product.Status.PUBLISH, "quantity": 100} | fields)


def make_variation(product: Product, title: str = "Large", **fields: Any) -> Variation:
    """A variation of a variable product, priced 20.00, with 10 in stock."""
    return Variation.objects.create(product=product, title=title, **{"price": 2000, "quantity": 10} | fields)


def other_shop(name: str = "other") -> Shop:
    owner = make_user(Role.STORE_OWNER, name)
    return Shop.objects.create(owner=owner, name=name.title(), slug=name)


def buy(customer: User, *goods: Goods, **delivery: Any) -> Order:
    lines = [
        RequestedLine(product_id=product.pk, quantity=quantity, variation_id=rest[0].pk if rest else None)
        for product, quantity, *rest in goods
    ]
    return place_order(customer=customer, lines=lines, delivery=DeliveryDetails(**delivery), now=timezone.now())


def move(order: Order, status: str, actor: User | None = None) -> Order:
    """Change the status of a child order as this user, by default the shop's owner."""
    assert order.shop is not None
    return change_order_status(order_id=order.pk, status=status, actor=actor or order.shop.owner, now=timezone.now())
