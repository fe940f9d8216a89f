"""Addresses in the admin."""

import json

import pytest
from django.test import Client

from commerce.addresses.models import Address
from shared.accounts.models import User
from tests.commerce.addresses.test_addresses import PARIS, make_address

LIST = "/admin/commerce_addresses/address/"


@pytest.fixture
def desk(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def form(customer: User, **changes: str) -> dict[str, str]:
    return {"customer": str(customer.pk), "title": "Desk", "type": "billing", "address": json.dumps(PARIS)} | changes


def test_a_new_default_replaces_the_former_one(desk: Client, customer: User):
    make_address(customer, default=True)

    assert desk.post(f"{LIST}add/", form(customer, default="on")).headers["Location"] == LIST
    assert list(Address.objects.values_list("title", "default")) == [("Home", False), ("Desk", True)]


def test_a_changed_address_keeps_its_customer(desk: Client, customer: User, owner: User):
    former, row = make_address(customer, default=True), make_address(customer, title="Old")

    answer = desk.post(f"{LIST}{row.pk}/change/", form(owner, default="on"))

    assert answer.headers["Location"] == LIST
    row.refresh_from_db()
    assert (row.title, row.default, row.customer) == ("Desk", True, customer)
    former.refresh_from_db()
    assert not former.default


@pytest.mark.parametrize(
    "address", ["{}", "[]", '{"a": "\\u0000"}', '{"a": "\\ud800"}', json.dumps({"a": "x" * 17_000})]
)
def test_i2_text_that_no_database_can_store_is_refused_in_the_form(desk: Client, customer: User, address: str):
    answer = desk.post(f"{LIST}add/", form(customer, address=address))

    assert answer.status_code == 200
    assert not Address.objects.exists()


def test_addresses_are_found_by_their_customers_email(desk: Client, customer: User, owner: User):
    make_address(customer, title="Hers")
    make_address(owner, title="His")

    page = desk.get(LIST, {"q": customer.email[:9]}).content.decode()

    assert "Hers" in page
    assert "His" not in page
