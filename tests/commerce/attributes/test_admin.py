"""Attributes in the admin."""

import pytest
from django.test import Client

from commerce.attributes.models import Attribute
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.attributes.conftest import BLUE, RED, make_attribute, told

LIST = "/admin/commerce_attributes/attribute/"
NO_VALUES = {"values-TOTAL_FORMS": "0", "values-INITIAL_FORMS": "0"}


@pytest.fixture
def desk(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def test_an_attribute_is_created_with_its_own_slug(desk: Client, shop: Shop, foreign_shop: Shop):
    make_attribute(foreign_shop)
    values = {"values-TOTAL_FORMS": "1", "values-INITIAL_FORMS": "0", "values-0-value": "Red", "values-0-meta": "#f00"}

    answer = desk.post(f"{LIST}add/", {"shop": str(shop.pk), "name": "Color", "language": "en"} | values)

    assert answer.headers["Location"] == LIST
    attribute = Attribute.objects.get(shop=shop)
    assert (attribute.slug, told(attribute)) == ("color-2", [("Red", "#f00")])
    assert attribute.values.get().slug == "red"


def test_an_attribute_is_changed_with_its_values(desk: Client, shop: Shop):
    attribute = make_attribute(shop, values=[RED, BLUE])
    red, blue = attribute.values.all()
    values = {
        "values-TOTAL_FORMS": "2",
        "values-INITIAL_FORMS": "2",
        "values-0-id": str(red.pk),
        "values-0-value": "Dark red",
        "values-0-meta": "",
        "values-1-id": str(blue.pk),
        "values-1-value": "Blue",
        "values-1-DELETE": "on",
    }

    answer = desk.post(f"{LIST}{attribute.pk}/change/", {"shop": str(shop.pk), "name": "Colour"} | values)

    assert answer.headers["Location"] == LIST
    attribute.refresh_from_db()
    assert (attribute.name, attribute.slug, told(attribute)) == ("Colour", "color", [("Dark red", "")])
    assert attribute.values.get().slug == "dark-red"


def test_an_attribute_is_deleted(desk: Client, shop: Shop):
    attribute = make_attribute(shop, values=[RED])

    assert desk.get(f"{LIST}{attribute.pk}/change/").status_code == 200
    assert desk.post(f"{LIST}{attribute.pk}/delete/", {"post": "yes"}).headers["Location"] == LIST
    assert not Attribute.objects.exists()
