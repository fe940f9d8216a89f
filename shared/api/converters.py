"""Path converter for ids, as in `path("addresses/<id:pk>", ...)`. Any other text is a 404."""

from django.urls import register_converter

MAX_ID = 2**63 - 1


class IdConverter:
    """Positive 64-bit integer in one notation: ASCII digits without a sign or leading zeros."""

    regex = "[1-9][0-9]{0,18}"

    def to_python(self, value: str) -> int:
        """Return the id. Raise ValueError, which Django answers with 404, above the maximum of the database."""
        number = int(value)
        if number > MAX_ID:
            raise ValueError("This is larger than any id.")
        return number

    def to_url(self, value: int) -> str:
        return str(value)


register_converter(IdConverter, "id")
