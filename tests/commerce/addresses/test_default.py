"""One default address of each type under concurrent requests (row C8)."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier

import pytest
from django.db import connections

from commerce.addresses.models import Address
from commerce.addresses.services import create_address, update_address
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ValidationFailed
from tests.commerce.conftest import make_user

AT_ONCE = 20
REPEATS = 5  # of twenty addresses: a customer has a hundred at most
NOW = datetime(2026, 1, 10, tzinfo=UTC)


def in_threads(*calls: object) -> None:
    """Run all calls concurrently, each on its own connection."""
    barrier = Barrier(len(calls))

    def one(call: object) -> None:
        try:
            barrier.wait(60)
            call()  # type: ignore[operator]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(one, call) for call in calls]:
            done.result()


@pytest.fixture
def buyer(transactional_db: None) -> User:
    return make_user(Role.CUSTOMER, "buyer")


def make(user: User, number: int, default: bool = True) -> Address:
    return create_address(
        actor=user,
        customer_id=user.pk,
        title=str(number),
        type="billing",
        address={"n": number},
        default=default,
        now=NOW,
    )


def test_c8_twenty_concurrent_new_defaults_leave_one_default(buyer: User):
    for repeat in range(REPEATS):
        in_threads(*(lambda number=number: make(buyer, number) for number in range(AT_ONCE)))

        assert Address.objects.filter(customer=buyer).count() == AT_ONCE * (repeat + 1)
        assert Address.objects.filter(customer=buyer, default=True).count() == 1


def test_c8_concurrent_changes_to_default_leave_one_default(buyer: User):
    rows = [make(buyer, number, default=False) for number in range(AT_ONCE)]

    def choose(row: Address) -> None:
        update_address(customer=buyer, address_id=row.pk, changes={"default": True}, now=NOW)

    for _ in range(REPEATS):
        in_threads(*(lambda row=row: choose(row) for row in rows))

        assert Address.objects.filter(customer=buyer, default=True).count() == 1


def test_n4_a_customer_has_a_hundred_addresses_at_most(buyer: User):
    Address.objects.bulk_create(
        Address(customer=buyer, title="T", type="billing", address={"n": 1}, created_at=NOW, updated_at=NOW)
        for _ in range(98)
    )
    refused: list[str] = []

    def add(number: int) -> None:
        try:
            make(buyer, number, default=False)
        except ValidationFailed as error:
            refused.append(str(error))

    in_threads(*(lambda number=number: add(number) for number in range(50)))
    assert len(refused) == 48
    assert all("0 are left" in refusal for refusal in refused)
    assert Address.objects.count() == 100
