"""Amounts of money: integer minor units in the database, a JSON number of major units (12.5) in the API."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

# ISO 4217: currencies whose minor unit is not a hundredth.
EXPONENTS: Mapping[str, int] = (
    dict.fromkeys(
        [
            "BIF",
            "CLP",
            "DJF",
            "GNF",
            "ISK",
            "JPY",
            "KMF",
            "KRW",
            "PYG",
            "RWF",
            "UGX",
            "UYI",
            "VND",
            "VUV",
            "XAF",
            "XOF",
            "XPF",
        ],
        0,
    )
    | dict.fromkeys(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"], 3)
    | dict.fromkeys(["CLF", "UYW"], 4)
)
# A double preserves up to fifteen decimal digits, in any JSON implementation.
MAX_MINOR_UNITS = 10**15 - 1
MAX_PRICE = 10**12  # in minor units; orders add and multiply prices
MAX_ORDER_TOTAL = 10**13  # of products; analytics adds up orders in 64 bits, which hold 900,000 of these


class InvalidMoney(ValueError):
    """Error for an amount that the currency cannot have; the message says why."""


def decimal_places(currency: str) -> int:
    """Return the number of decimal places of the currency."""
    return EXPONENTS.get(currency, 2)


def to_major(minor: int, currency: str) -> Decimal:
    """Return the amount in major units: 1250 of EUR is Decimal("12.50")."""
    return Decimal(minor).scaleb(-decimal_places(currency))


def to_number(minor: int, currency: str) -> int | float:
    """Return the amount as a JSON number: 1250 of EUR is 12.5; an int if the currency has no decimal places."""
    places = decimal_places(currency)
    return minor / 10**places if places else minor


def to_minor(major: Decimal | int | float, currency: str) -> int:
    """Return the exact amount in minor units: 12.5 of EUR is 1250.

    Raise InvalidMoney for too many decimal places, for what is not a finite number, and for an amount that is too
    large.
    """
    try:
        number = Decimal(repr(major)) if isinstance(major, float) else Decimal(major)
    except InvalidOperation:
        raise InvalidMoney("A valid number is required.") from None
    if not number.is_finite() or abs(number) > MAX_MINOR_UNITS:
        raise InvalidMoney("This amount is too large.")
    minor = number.scaleb(decimal_places(currency))
    if minor != int(minor):
        raise InvalidMoney(f"{currency} has at most {decimal_places(currency)} decimal places.")
    if abs(minor) > MAX_MINOR_UNITS:
        raise InvalidMoney("This amount is too large.")
    return int(minor)


@extend_schema_field({"type": "number", "minimum": 0, "maximum": MAX_MINOR_UNITS, "example": 12.5})
class MoneyField(serializers.Field[int, Any, int | float, Any]):
    """Column of minor units as a number of major units.

    The currency is the object's attribute `currency`, or the path `currency_source` (`order.currency`). For request
    bodies it is the field `currency` beside it or at the top level, else that of the instance, else the platform's.
    """

    default_error_messages = {
        "invalid": "A valid number is required.",
        "min_value": "This may not be below {min_value}.",
        "max_value": "This amount is too large.",
    }

    def __init__(
        self, *, currency_source: str = "currency", min_value: int = 0, max_value: int = MAX_PRICE, **kwargs: Any
    ) -> None:
        """Create the field; `min_value` and `max_value` are minor units."""
        super().__init__(**kwargs)
        self._currency_path = currency_source.split(".")
        self._min_value, self._max_value = min_value, max_value

    def get_attribute(self, instance: Any) -> Any:
        minor = super().get_attribute(instance)
        return None if minor is None else (minor, self._currency_of(instance))

    def to_representation(self, value: Any) -> int | float:
        minor, currency = value
        return to_number(minor, currency)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        try:
            minor = to_minor(data, self._currency_sent())
        except InvalidMoney as error:
            raise serializers.ValidationError(str(error)) from None
        if minor < self._min_value:
            self.fail("min_value", min_value=to_number(self._min_value, self._currency_sent()))
        if minor > self._max_value:
            self.fail("max_value")
        return minor

    def _currency_of(self, instance: Any) -> str:
        for name in self._currency_path:
            instance = instance[name] if isinstance(instance, Mapping) else getattr(instance, name)
        return str(instance)

    def _currency_sent(self) -> str:
        holders = (self.parent, self.root)  # for a variation's price, the product's currency
        for sent in (getattr(holder, "initial_data", None) for holder in holders):
            if isinstance(sent, Mapping) and isinstance(sent.get("currency"), str):
                return str(sent["currency"])
        for instance in (getattr(holder, "instance", None) for holder in holders):
            if instance is not None:
                return self._currency_of(instance)
        return str(settings.CURRENCY)
