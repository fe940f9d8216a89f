"""What may stand in an address."""

import json
from typing import Any

from django.core.exceptions import ValidationError

from shared.api.errors import ApiError
from shared.api.json import parse_json

LARGEST_BYTES = 16 * 1024


def validate_address(value: Any) -> None:
    """A JSON object with something in it, of at most 16 KiB, that every database can keep. Raises ValidationError."""
    if not isinstance(value, dict):
        raise ValidationError('Send an object, as in {"city": "Paris"}.')
    if not value:
        raise ValidationError("An address needs at least one field.")
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
    if len(written) > LARGEST_BYTES:
        raise ValidationError(f"An address has at most {LARGEST_BYTES} bytes; this one has {len(written)}.")
    try:
        parse_json(json.dumps(value).encode())  # it may have come from a form, past the door that checks bodies
    except ApiError as error:
        raise ValidationError(str(error)) from None
