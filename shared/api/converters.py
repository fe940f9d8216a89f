"""How ids stand in paths: `path("addresses/<id:pk>", ...)`. What is no id is no address at all, a 404."""

from django.urls import register_converter

MAX_ID = 2**63 - 1


class IdConverter:
    """A positive 64-bit integer in one spelling: ASCII digits, no sign, no leading zero."""

    regex = "[1-9][0-9]{0,18}"

    def to_python(self, value: str) -> int:
        """Raises ValueError, which Django takes for "no such path", past what a database can keep."""
        number = int(value)
        if number > MAX_ID:
            raise ValueError("This is larger than any id.")
        return number

    def to_url(self, value: int) -> str:
        return str(value)


register_converter(IdConverter, "id")
