"""Amounts of money between the database and JSON."""

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings
from rest_framework import serializers

from shared.api.money import MAX_MINOR_UNITS, InvalidMoney, MoneyField, to_major, to_minor, to_number

pytestmark = pytest.mark.no_database

CURRENCIES = st.sampled_from(["EUR", "JPY", "KWD", "CLF"])


class PriceSerializer(serializers.Serializer[Any]):
    price = MoneyField()
    sale_price = MoneyField(allow_null=True, required=False)


@pytest.fixture(autouse=True)
def _euro(settings: Settings) -> None:
    settings.CURRENCY = "EUR"


def sent(price: object, **fields: object) -> PriceSerializer:
    serializer = PriceSerializer(data={"price": price} | fields)
    serializer.is_valid()
    return serializer


@pytest.mark.parametrize(
    ("minor", "currency", "number"),
    [(1250, "EUR", 12.5), (1, "USD", 0.01), (0, "EUR", 0.0), (1250, "JPY", 1250), (1250, "KWD", 1.25)],
)
def test_minor_units_are_written_as_a_number_of_major_units(minor: int, currency: str, number: float):
    told = PriceSerializer(SimpleNamespace(price=minor, sale_price=None, currency=currency)).data

    assert told == {"price": number, "sale_price": None}
    assert to_minor(number, currency) == minor
    assert type(told["price"]) is type(number)


@given(st.integers(-MAX_MINOR_UNITS, MAX_MINOR_UNITS), CURRENCIES)
def test_every_amount_survives_a_round_trip(minor: int, currency: str):
    assert to_minor(to_number(minor, currency), currency) == minor
    assert to_minor(to_major(minor, currency), currency) == minor


def test_an_amount_is_in_the_currency_beside_it_or_of_the_instance_or_the_default():
    held = SimpleNamespace(price=1, sale_price=None, currency="KWD")
    changed = PriceSerializer(held, data={"price": 1.5})
    changed.is_valid(raise_exception=True)

    assert sent(12.5).validated_data == {"price": 1250}
    assert sent(12, currency="JPY").validated_data == {"price": 12}
    assert changed.validated_data == {"price": 1500}


@pytest.mark.parametrize(
    ("price", "message"),
    [
        (12.345, "EUR has at most 2 decimal places."),
        (1e-300, "EUR has at most 2 decimal places."),
        (-0.01, "This may not be below 0.0."),
        (1e10 + 1, "This amount is too large."),
        (1e300, "This amount is too large."),
        (10**4000, "This amount is too large."),
        ("12.5", "A valid number is required."),
        (True, "A valid number is required."),
        ([1], "A valid number is required."),
        (None, "This field may not be null."),
    ],
)
def test_an_invalid_price_is_refused_with_a_reason(price: object, message: str):
    assert sent(price).errors == {"price": [message]}


@pytest.mark.parametrize("major", [Decimal("NaN"), Decimal("Infinity"), float("nan"), float("-inf")])
def test_a_number_that_is_not_finite_is_refused(major: Any):
    with pytest.raises(InvalidMoney):
        to_minor(major, "EUR")
