"""Base class of the native request bodies."""

from msgspec import Struct


class RequestBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request body that refuses unknown fields."""
