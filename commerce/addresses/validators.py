"""Validation of the free-form `address` object."""

import json
from typing import Any

from django.core.exceptions import ValidationError

from shared.api.errors import ApiError
from shared.api.parsers import parse_json

MAX_ADDRESS_BYTES = 16 * 1024


def validate_address(value: Any) -> None:
    """Raise ValidationError unless `value` is a non-empty JSON object of at most 16 KiB that any database can store."""
    if not isinstance(value, dict):
        raise ValidationError('Send an object, as in {"city": "Paris"}.')
    if not value:
        raise ValidationError("An address needs at least one field.")
    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
    if len(encoded) > MAX_ADDRESS_BYTES:
        raise ValidationError(f"This address has {len(encoded)} bytes; at most {MAX_ADDRESS_BYTES} are allowed.")
    try:
        parse_json(json.dumps(value).encode())  # a form in the admin does not pass the middleware that checks bodies
    except ApiError as error:
        raise ValidationError(str(error)) from None


def validate_changed_address(value: Any) -> None:
    """Raise ValidationError as `validate_address` does, except for an empty object, which changes nothing."""
    if value != {}:
        validate_address(value)
