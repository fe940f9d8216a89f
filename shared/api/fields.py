"""Serializer fields whose values databases and other languages read alike."""

from typing import Any

from rest_framework import serializers

from shared.api.query_params import MAX_INTEGER, parse_integer
from shared.api.slugs import make_slug

MAX_PASSWORD_LENGTH = 1024


class IdField(serializers.IntegerField):
    """Id in a body: 1 to the maximum of 64 bits, as a number or as ASCII digits."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=1, max_value=MAX_INTEGER, **kwargs)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, str) and parse_integer(data) is None:
            self.fail("invalid")
        return super().to_internal_value(data)


class SlugInputField(serializers.CharField):
    """Wanted slug of a new row. Any text is accepted and written as a slug."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, allow_blank=True, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        return make_slug(super().to_internal_value(data))


class PasswordField(serializers.CharField):
    """Password exactly as it was typed, with its leading and trailing spaces."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_PASSWORD_LENGTH, trim_whitespace=False, write_only=True, **kwargs)


class EmailAddressField(serializers.EmailField):
    """E-mail address that can receive e-mail: quoted parts may hold spaces and control characters, which break it."""

    def to_internal_value(self, data: Any) -> str:
        address: str = super().to_internal_value(data)
        if '"' in address or not address.isprintable():
            raise serializers.ValidationError("Enter an address without quotes and control characters.")
        return address
