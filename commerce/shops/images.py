"""How the pictures of shops and products are named in what is sent."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

LARGEST_ID = 2**63 - 1


@extend_schema_field(
    {
        "type": "object",
        "properties": {"id": {"type": "integer", "minimum": 1}},
        "required": ["id"],
        "example": {"id": 7},
    }
)
class ImageReferenceField(serializers.Field[int, Any, Any, Any]):
    """An attachment as its record or any object with its `id`: clients send back what they were sent. The value is the
    id; whose it must be is the service's question."""

    default_error_messages = {"invalid": "Send an object with the id of an uploaded image."}

    def to_internal_value(self, data: Any) -> int:
        identity = data.get("id") if isinstance(data, dict) else None
        if not isinstance(identity, int) or isinstance(identity, bool) or not 0 < identity <= LARGEST_ID:
            self.fail("invalid")
        return identity

    def to_representation(self, value: int) -> dict[str, int]:
        return {"id": value}
