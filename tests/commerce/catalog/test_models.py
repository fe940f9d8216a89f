"""Products in the database: their constraints and their visibility."""

from typing import Any

import pytest
from django.db import DataError, IntegrityError

from commerce.catalog.models import Product
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import make_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "fields",
    [{"price": -1}, {"quantity": -1}, {"sale_price": -1}, {"sale_price": 1251}, {"currency": "eur"}, {"currency": ""}],
)
def test_the_database_refuses_an_invalid_product(shop: Shop, fields: dict[str, Any]):
    with pytest.raises((IntegrityError, DataError)):
        make_product(shop, **fields)


def test_a_slug_is_unique_in_its_language(shop: Shop):
    make_product(shop)
    make_product(shop, language="de")

    with pytest.raises(IntegrityError):
        make_product(shop)


def test_owner_and_staff_find_the_products_of_their_own_shops(shop: Shop, owner: User, staff: User):
    stranger = make_user(Role.STORE_OWNER, "other")
    theirs = Shop.objects.create(owner=stranger, name="Other", slug="other")
    ours, other = make_product(shop), make_product(theirs, slug="other-lamp")

    assert list(Product.objects.for_user(owner)) == [ours]
    assert list(Product.objects.for_user(staff)) == [ours]
    assert list(Product.objects.for_user(stranger)) == [other]


def test_a_customer_finds_no_shop_of_their_own(shop: Shop, customer: User):
    make_product(shop)

    assert not Product.objects.for_user(customer).exists()
