"""Money in admin pages: displayed and entered in major units, stored in minor units."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin
from unfold.widgets import UnfoldAdminDecimalFieldWidget

from shared.api.money import MAX_PRICE, InvalidMoney, to_major, to_minor


def money_column(name: str, *, description: str = "", currency: str = "currency") -> Callable[[Any], str]:
    """Return a column or read-only field that displays the minor units in `name` as "12.50 EUR".

    `currency` is the path of the currency, as in `order__currency`.
    """

    @admin.display(description=description or name.replace("_", " ").capitalize(), ordering=name, empty_value="-")
    def display(row: Any) -> str:
        minor = getattr(row, name)
        return "-" if minor is None else format_money(minor, _value_at(row, currency))

    return display


def format_money(minor: int, currency: str) -> str:
    """Return minor units as text in major units with the currency."""
    return f"{to_major(minor, currency):,} {currency}"


def _value_at(row: Any, path: str) -> Any:
    for name in path.split("__"):
        row = getattr(row, name)
    return row


class MoneyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A model form that displays and takes the columns in `money_fields` in major units.

    The currency is the form's field `currency`, else that of the row; subclasses may override `get_currency`.
    """

    money_fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in self._money_names():
            column = self.fields[name]
            self.fields[name] = forms.DecimalField(
                label=column.label, required=column.required, min_value=0, max_digits=20, decimal_places=4,
                widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
            )  # fmt: skip
            minor = getattr(self.instance, name)
            self.initial[name] = None if minor is None else to_major(minor, self.get_currency())

    def get_currency(self) -> str:
        return str(getattr(self.instance, "currency", "") or settings.CURRENCY)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        currency = str(cleaned.get("currency") or self.get_currency())
        for name in self._money_names():
            if isinstance(cleaned.get(name), Decimal):
                cleaned[name] = self._minor(name, cleaned[name], currency)
        return cleaned

    def _minor(self, name: str, major: Decimal, currency: str) -> int | None:
        try:
            minor = to_minor(major.normalize(), currency)
            if minor > MAX_PRICE:
                raise InvalidMoney("This amount is too large.")
        except InvalidMoney as error:
            self.add_error(name, str(error))
            return None
        return minor

    def _money_names(self) -> list[str]:
        return [name for name in self.money_fields if name in self.fields]
