"""Shops with attributes."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from commerce.attributes import services
from commerce.attributes.models import Attribute
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import ApiClient, make_user

NOW = datetime(2026, 1, 10, 10, 30, tzinfo=UTC)
RED, BLUE = {"value": "Red", "meta": "#f00"}, {"value": "Dark blue", "meta": "#00a"}


def make_attribute(shop: Shop, name: str = "Color", **more: Any) -> Attribute:
    return services.create_attribute(actor=shop.owner, shop_id=shop.pk, name=name, now=NOW, **more)


def told(attribute: Attribute) -> list[tuple[str, str]]:
    return list(attribute.values.values_list("value", "meta"))


@pytest.fixture
def mine(client_of: ApiClient, owner: User) -> Client:
    """Return a client of the owner of `shop`."""
    return client_of(owner)


@pytest.fixture
def foreign_shop(db: None) -> Shop:
    """Return a shop of another owner."""
    return Shop.objects.create(owner=make_user(Role.STORE_OWNER, "other"), name="Away", slug="away")
