"""The routes of addresses."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from commerce.addresses.models import Address
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key
from tests.commerce.conftest import ApiClient, bearer, make_user

PARIS = {"street_address": "1 Rue de Rivoli", "city": "Paris", "zip": "75001", "country": "France"}
NOW = datetime(2026, 1, 10, 10, 30, tzinfo=UTC)


def body(user: User, **changes: Any) -> dict[str, Any]:
    return {"title": "Home", "type": "billing", "address": PARIS, "customer_id": user.pk} | changes


def make_address(user: User, **changes: Any) -> Address:
    fields = {"title": "Home", "type": "billing", "address": PARIS, "created_at": NOW, "updated_at": NOW} | changes
    return Address.objects.create(customer=user, **fields)


def post(client: Client, sent: Any, path: str = "/api/addresses") -> Any:
    return client.post(path, sent, content_type="application/json")


def put(client: Client, address: Address, sent: Any) -> Any:
    return client.put(f"/api/addresses/{address.pk}", sent, content_type="application/json")


@pytest.fixture
def mine(client_of: ApiClient, customer: User) -> Client:
    return client_of(customer)


@pytest.fixture
def other(db: None) -> User:
    return make_user(Role.CUSTOMER, "other")


def test_an_address_is_returned_as_it_was_sent(mine: Client, customer: User):
    address = PARIS | {"door": {"code": [1, 2.5, None, True]}, "état": "ÎdF", "city": ""}

    answer = post(mine, body(customer, address=address))

    assert answer.status_code == 201, answer.content
    record = answer.json()
    row = Address.objects.get()
    assert record == {
        "id": row.pk,
        "title": "Home",
        "type": "billing",
        "default": False,
        "address": address,
        "customer_id": customer.pk,
        "created_at": row.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "updated_at": row.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    assert mine.get(f"/api/addresses/{row.pk}").json() == record
    assert mine.get("/api/addresses").json() == [record]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"title": None}, "title"),
        ({"title": ""}, "title"),
        ({"title": "x" * 256}, "title"),
        ({"title": {"a": 1}}, "title"),
        ({"type": "home"}, "type"),
        ({"type": "Billing"}, "type"),
        ({"type": ["billing"]}, "type"),
        ({"default": "perhaps"}, "default"),
        ({"address": None}, "address"),
        ({"address": {}}, "address"),
        ({"address": []}, "address"),
        ({"address": "Paris"}, "address"),
        ({"address": {"city": "x" * (16 * 1024)}}, "address"),
        ({"customer_id": None}, "customer_id"),
        ({"customer_id": "me"}, "customer_id"),
        ({"customer_id": 0}, "customer_id"),
        ({"customer_id": -1}, "customer_id"),
        ({"customer_id": 2**63}, "customer_id"),
        ({"customer_id": 10**30}, "customer_id"),
        ({"validate": "perhaps"}, "validate"),
    ],
)
def test_invalid_fields_are_named_and_nothing_is_stored(
    mine: Client, customer: User, changes: dict[str, Any], field: str
):
    answer = post(mine, body(customer, **changes))

    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [field]
    assert not Address.objects.exists()


@pytest.mark.parametrize("missing", ["title", "type", "address", "customer_id"])
def test_missing_fields_are_named(mine: Client, customer: User, missing: str):
    sent = {name: value for name, value in body(customer).items() if name != missing}

    assert list(post(mine, sent).json()["errors"]) == [missing]


def test_an_address_of_exactly_16_kib_is_accepted(mine: Client, customer: User):
    largest = {"c": "x" * (16 * 1024 - len('{"c":""}'))}

    assert post(mine, body(customer, address=largest)).status_code == 201
    assert post(mine, body(customer, address={"c": largest["c"] + "x"})).status_code == 422
    assert post(mine, body(customer, address={"c": "é" * (8 * 1024)})).status_code == 422


@pytest.mark.parametrize(
    "inside",
    [
        '"a\\u0000b"',
        '"\\ud800"',
        "NaN",
        "-Infinity",
        "1e999",
        "9" * 5000,
        '{"a": 1, "a": 2}',
        "[" * 100 + "]" * 100,
    ],
)
def test_i2_text_that_no_database_can_store_is_refused_in_an_address(mine: Client, customer: User, inside: str):
    sent = f'{{"title": "t", "type": "billing", "customer_id": {customer.pk}, "address": {{"x": {inside}}}}}'

    for answer in (post(mine, sent), put(mine, make_address(customer), sent)):
        assert answer.status_code == 422
        assert list(answer.json()["errors"]) == ["non_field_errors"]
    assert Address.objects.get().address == PARIS


def test_a_key_of_an_address_may_not_contain_nul(mine: Client, customer: User):
    assert post(mine, body(customer, address={"a\x00": 1})).status_code == 422


def test_c1_another_users_address_is_404(mine: Client, other: User, admin: User, client_of: ApiClient):
    theirs = make_address(other)

    for client in (mine, client_of(admin)):
        missing = client.get(f"/api/addresses/{theirs.pk + 1}")
        for answer in (
            client.get(f"/api/addresses/{theirs.pk}"),
            put(client, theirs, {"title": "Taken"}),
            client.delete(f"/api/addresses/{theirs.pk}"),
            client.delete(f"/api/address/{theirs.pk}"),
        ):
            assert answer.status_code == 404
        assert missing.status_code == 404
        assert client.get("/api/addresses").json() == []
        assert client.get("/api/addresses", {"search": "title:Home"}).json() == []
    assert Address.objects.get().title == "Home"


def test_c2_read_only_fields_are_ignored(mine: Client, customer: User, other: User):
    extra: dict[str, Any] = {f"field_{number}": number for number in range(1000)}
    extra |= {"id": 99, "created_at": "2001-01-01", "updated_at": "2001-01-01", "customer": other.pk, "pk": 99}

    made = post(mine, body(customer, **extra))
    row = Address.objects.get()
    changed = put(mine, row, extra | {"customer_id": other.pk, "title": "Work"})

    assert (made.status_code, changed.status_code) == (201, 200)
    assert (made.json()["id"], row.customer) == (row.pk, customer)
    assert row.created_at.year >= 2026
    row_after = Address.objects.get()
    assert (row_after.pk, row_after.customer, row_after.created_at) == (row.pk, customer, row.created_at)
    assert row_after.title == "Work"


def test_a_customer_adds_addresses_of_their_own_only(mine: Client, other: User):
    answer = post(mine, body(other))

    assert answer.status_code == 422
    assert answer.json()["errors"] == {"customer_id": ["Send your own id: you can only add addresses of your own."]}
    assert not Address.objects.exists()


def test_a_super_admin_may_name_any_customer(client_of: ApiClient, admin: User, customer: User):
    assert post(client_of(admin), body(customer)).json()["customer_id"] == customer.pk
    assert post(client_of(admin), body(customer, customer_id=customer.pk + 1000)).json()["errors"] == {
        "customer_id": ["There is no customer with this id."]
    }


def test_the_customer_of_an_address_never_changes(mine: Client, customer: User, other: User):
    row = make_address(customer)

    for named in (other.pk, "nonsense", None, 2**70):
        answer = put(mine, row, {"customer_id": named})
        assert (answer.status_code, answer.json()["customer_id"]) == (200, customer.pk)


def test_a_change_keeps_the_fields_it_does_not_have(mine: Client, customer: User):
    row = make_address(customer, default=True)

    record = put(mine, row, {"title": "Office"}).json()

    assert (record["title"], record["type"], record["default"], record["address"]) == ("Office", "billing", True, PARIS)
    assert record["created_at"] == "2026-01-10T10:30:00.000000Z"
    assert record["updated_at"] > record["created_at"]


@pytest.mark.parametrize(
    "changes", [{"title": ""}, {"type": "x"}, {"address": []}, {"address": None}, {"default": None}]
)
def test_an_invalid_change_changes_nothing(mine: Client, customer: User, changes: dict[str, Any]):
    row = make_address(customer)

    answer = put(mine, row, {"title": "Office"} | changes)

    assert answer.status_code == 422
    assert Address.objects.get().updated_at == NOW


@pytest.mark.parametrize("path", ["/api/addresses/{}", "/api/address/{}"])
def test_a_deletion_returns_true_and_deletes_the_address(mine: Client, customer: User, path: str):
    row = make_address(customer)

    answer = mine.delete(path.format(row.pk))

    assert (answer.status_code, answer.json()) == (200, True)
    assert mine.delete(path.format(row.pk)).status_code == 404
    assert not Address.objects.exists()


def defaults(user: User) -> list[str]:
    return sorted(Address.objects.filter(customer=user, default=True).values_list("title", flat=True))


def test_a_new_default_replaces_the_former_one(mine: Client, customer: User, other: User):
    make_address(other, title="Theirs", default=True)
    make_address(customer, title="Delivery", type="shipping", default=True)
    first = make_address(customer, title="First", default=True)

    post(mine, body(customer, title="Second", default=True))
    assert defaults(customer) == ["Delivery", "Second"]

    put(mine, first, {"default": True})
    assert defaults(customer) == ["Delivery", "First"]

    put(mine, first, {"type": "shipping"})
    assert defaults(customer) == ["First"]

    put(mine, first, {"default": False})
    assert defaults(customer) == []
    assert defaults(other) == ["Theirs"]


def test_database_constraints_check_default_type_and_address(customer: User):
    make_address(customer, default=True)

    refused: list[dict[str, Any]] = [{"default": True}, {"type": "home"}, {"address": {}}]
    for changes in refused:
        with pytest.raises(IntegrityError), transaction.atomic():
            make_address(customer, **changes)
    assert Address.objects.count() == 1


def test_an_empty_address_in_a_change_keeps_what_it_was(mine: Client, customer: User):
    address = make_address(customer, title="Home")

    answer = put(mine, address, {"title": "Work", "address": {}})

    assert answer.status_code == 200, answer.content
    assert (answer.json()["title"], answer.json()["address"]) == ("Work", PARIS)
    assert put(mine, address, {"address": []}).status_code == 422
    assert post(mine, body(customer, address={})).status_code == 422


def test_addresses_are_listed_oldest_first_or_in_the_requested_order(mine: Client, customer: User):
    for title, type_ in (("B", "shipping"), ("A", "billing"), ("C", "billing")):
        make_address(customer, title=title, type=type_)

    def titles(**query: str) -> str:
        return "".join(row["title"] for row in mine.get("/api/addresses", query).json())

    assert titles() == "BAC"
    assert titles(orderBy="title", sortedBy="desc") == "CBA"
    assert titles(search="type:billing") == "AC"
    assert titles(limit="1", page="2") == "A"
    assert titles(**{"orderBy": "customer", "with": "customer"}) == "BAC"


@pytest.mark.parametrize("identity", ["0", "-1", "x", "1.0", "٣", str(2**63), str(10**30), "1/", "%00"])
def test_i7_an_invalid_id_is_404(mine: Client, identity: str):
    for answer in (mine.get(f"/api/addresses/{identity}"), mine.delete(f"/api/addresses/{identity}")):
        assert answer.status_code == 404
        assert answer.json()["code"] == "not_found"


ROUTES = [
    ("get", "addresses"),
    ("post", "addresses"),
    ("get", "addresses/1"),
    ("put", "addresses/1"),
    ("delete", "addresses/1"),
    ("delete", "address/1"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_c5_an_anonymous_user_gets_401(client_of: ApiClient, method: str, path: str):
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer null"}):
        answer = getattr(Client(headers=headers), method)(f"/api/{path}")
        assert answer.status_code == 401


def test_a_restricted_key_sees_no_addresses(customer: User):
    raw = create_api_key(user=customer, name="few", permissions=[], now=NOW)[1]
    assert Client(headers={"Authorization": f"Bearer {raw}"}).get("/api/addresses").status_code == 403


@pytest.mark.parametrize("count", [10, 1000])
def test_c7_the_list_costs_the_same_queries_for_any_number(customer: User, count: int, django_assert_num_queries: Any):
    Address.objects.bulk_create(
        Address(customer=customer, title=f"{number}", type="billing", address=PARIS, created_at=NOW, updated_at=NOW)
        for number in range(count)
    )
    client = Client(headers=bearer(customer))
    client.get("/api/addresses")
    with django_assert_num_queries(2):
        assert len(client.get("/api/addresses").json()) == count
