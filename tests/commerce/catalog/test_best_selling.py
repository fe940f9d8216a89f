"""GET /api/best-selling-products and /api/popular-products."""

from typing import Any

import pytest

from commerce.catalog.models import ProductType
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.conftest import ApiClient
from tests.commerce.orders.factories import buy, make_goods, move


@pytest.mark.parametrize("path", ["/api/best-selling-products", "/api/popular-products"])
def test_the_public_products_with_the_most_pieces_sold_come_first(
    client_of: ApiClient, shop: Shop, customer: User, path: str
):
    garden = ProductType.objects.create(name="Garden", slug="garden")
    lamp, chair, spade = make_goods(shop, "lamp"), make_goods(shop, "chair"), make_goods(shop, "spade", type=garden)
    make_goods(shop, "lampe", language="de", sold_quantity=99)
    make_goods(shop, "draft", status="draft", sold_quantity=99)
    buy(customer, (lamp, 2), (spade, 1))
    buy(customer, (chair, 3))
    cancelled = buy(customer, (lamp, 5))

    def listed(**query: Any) -> list[str]:
        return [row["slug"] for row in client_of(None).get(path, query).json()]

    assert listed() == ["lamp", "chair", "spade"]
    move(cancelled.children.get(), "cancelled")
    assert listed() == ["chair", "lamp", "spade"]
    assert listed(limit=1) == ["chair"]
    assert listed(type_slug="garden", **{"with": "type"}) == ["spade"]
    assert listed(shop_id=shop.pk + 999) == []
    assert listed(language="de") == ["lampe"]
