"""Path converters, as in `path("addresses/<id:pk>", ...)`. Any other text is a 404."""

from django.urls import register_converter
from django.urls.converters import StringConverter

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


class SlugOrIdConverter(StringConverter):
    """Slug, with letters of any script and their marks, or id."""

    regex = r"[^/\x00-\x20.]{1,255}"


register_converter(SlugOrIdConverter, "slug_or_id")
