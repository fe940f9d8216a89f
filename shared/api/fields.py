"""Fields of bodies that databases and other languages must agree about."""

from typing import Any

from rest_framework import serializers

from shared.api.query import LARGEST_INTEGER, whole_number


class IdField(serializers.IntegerField):
    """An id in a body: from 1 to what 64 bits hold, as a number or in ASCII digits."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=1, max_value=LARGEST_INTEGER, **kwargs)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, str) and whole_number(data) is None:
            self.fail("invalid")
        return super().to_internal_value(data)
