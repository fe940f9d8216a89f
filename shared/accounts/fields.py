"""Fields that every form about a person has in common."""

from typing import Any

from rest_framework import serializers

LONGEST_PASSWORD = 1024


class PasswordField(serializers.CharField):
    """As it was typed: spaces at its ends count."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=LONGEST_PASSWORD, trim_whitespace=False, write_only=True, **kwargs)


class MailboxField(serializers.EmailField):
    """An address that letters can be written to: quotes may hold spaces and control characters, which break them."""

    def to_internal_value(self, data: Any) -> str:
        address: str = super().to_internal_value(data)
        if '"' in address or not address.isprintable():
            raise serializers.ValidationError("Enter an address without quotes and control characters.")
        return address
