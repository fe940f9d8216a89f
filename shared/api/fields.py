"""Fields of bodies that databases and other languages must agree about."""

from typing import Any

from rest_framework import serializers

from shared.api.query_params import MAX_INTEGER, parse_integer

MAX_PASSWORD_LENGTH = 1024


class IdField(serializers.IntegerField):
    """An id in a body: from 1 to what 64 bits hold, as a number or in ASCII digits."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=1, max_value=MAX_INTEGER, **kwargs)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, str) and parse_integer(data) is None:
            self.fail("invalid")
        return super().to_internal_value(data)


class PasswordField(serializers.CharField):
    """As it was typed: spaces at its ends count."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_PASSWORD_LENGTH, trim_whitespace=False, write_only=True, **kwargs)


class EmailAddressField(serializers.EmailField):
    """An address that letters can be written to: quotes may hold spaces and control characters, which break them."""

    def to_internal_value(self, data: Any) -> str:
        address: str = super().to_internal_value(data)
        if '"' in address or not address.isprintable():
            raise serializers.ValidationError("Enter an address without quotes and control characters.")
        return address
