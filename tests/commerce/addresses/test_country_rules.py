"""Check of addresses against the rules of their countries."""

from typing import Any

import pytest
from django.test import Client

from commerce.addresses.country_rules import check_address
from shared.accounts.models import User
from tests.commerce.addresses.test_addresses import PARIS, body, make_address, post
from tests.commerce.conftest import ApiClient

OFFICE = {"street_address": "1600 Amphitheatre Pkwy", "city": "Mountain View", "state": "California", "zip": 94043}


def test_a_valid_address_gets_a_normalized_suggestion():
    address = OFFICE | {"country": "usa", "door": "7"}

    check = check_address(address)

    assert check == {
        "valid": True,
        "errors": {},
        "suggested": {
            "street_address": "1600 Amphitheatre Pkwy",
            "city": "MOUNTAIN VIEW",
            "state": "CA",
            "zip": "94043",
            "country": "US",
            "door": "7",
        },
    }
    assert address == OFFICE | {"country": "usa", "door": "7"}


def test_fields_that_a_country_does_not_use_are_never_blanked():
    check = check_address(
        {"street_address": "1 Rue", "city": "Paris", "zip": "75001", "country": "France", "state": "IdF"}
    )

    assert check["suggested"] == {
        "street_address": "1 Rue", "city": "PARIS", "zip": "75001", "country": "FR", "state": "IdF"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({"zip": "ABC"}, {"zip": "The postal rules of this country do not know this value."}),
        ({"zip": 10115}, {"zip": "The postal rules of this country do not know this value."}),
        ({"zip": None}, {"zip": "Addresses in this country need this field."}),
        ({"state": "Bavaria"}, {"state": "The postal rules of this country do not know this value."}),
        ({"city": ["Mountain View"]}, {"city": "Addresses in this country need this field."}),
        (
            {"street_address": "x" * 201},
            {"street_address": "This is too long to be checked: send at most 200 characters."},
        ),
    ],
)
def test_errors_are_named_by_the_clients_fields(changes: dict[str, Any], errors: dict[str, str]):
    assert check_address(OFFICE | {"country": "US"} | changes) == {"valid": False, "errors": errors, "suggested": None}


@pytest.mark.parametrize("country", [None, "", "ZZ", "all", "AL/../US", "Atlantis", 1, True, {}, "\u0130", "x" * 5000])
def test_an_unknown_country_has_its_own_error(country: Any):
    check = check_address(OFFICE | {"country": country})

    assert list(check["errors"]) == ["country"]


@pytest.mark.parametrize("country", ["CN", "BR", "JP", "KR", "AE", "HK", "CA", "AU", "IE", "VN"])
def test_i6_every_countrys_rules_take_hostile_text(country: str):
    for text in ("9" * 200, "A" * 200, "-" * 200, "\n" * 200, "((((" * 50):
        assert check_address({name: text for name in OFFICE} | {"country": country})["valid"] in (True, False)


def test_validation_is_returned_on_request(client_of: ApiClient, customer: User):
    client: Client = client_of(customer)

    assert "validation" not in post(client, body(customer)).json()
    made = post(client, body(customer, validate=True))
    assert made.json()["validation"]["valid"] is True
    assert "validation" not in client.get("/api/addresses").json()[0]
    listed = client.get("/api/addresses", {"validate": "1"}).json()
    assert [row["validation"]["suggested"]["city"] for row in listed] == ["PARIS", "PARIS"]
    assert [row["address"] for row in listed] == [PARIS, PARIS]
    one = client.get(f"/api/addresses/{made.json()['id']}", {"validate": "true"}).json()
    assert one["validation"]["errors"] == {}
    assert client.get("/api/addresses", {"validate": "perhaps"}).status_code == 422


def test_an_address_is_stored_whatever_its_validation(client_of: ApiClient, customer: User):
    answer = post(client_of(customer), body(customer, address={"country": "Atlantis"}, validate=True))

    assert answer.status_code == 201
    assert answer.json()["validation"]["valid"] is False


def test_a_list_with_validation_has_at_most_a_hundred_rows(client_of: ApiClient, customer: User):
    for _ in range(101):
        make_address(customer)

    answer = client_of(customer).get("/api/addresses", {"validate": "1"})

    assert len(answer.json()) == 100
    assert answer.headers["Link"].endswith('page=2>; rel="next"')
