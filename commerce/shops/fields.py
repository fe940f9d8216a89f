"""Serializer fields that shops and products share: references to images and small JSON objects."""

import json
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

MAX_ID = 2**63 - 1
MAX_OBJECT_BYTES = 16 * 1024


@extend_schema_field(
    {
        "type": "object",
        "properties": {
            "id": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_ID,
                "description": "Id of an image that you uploaded to `/api/attachments`.",
                "example": 7,
            }
        },
        "required": ["id"],
        "example": {"id": 7},
    }
)
class ImageReferenceField(serializers.Field[int, Any, Any, Any]):
    """A reference to an uploaded image: the image's record, or any object with its `id`.

    Clients may send back the record that they received. The value is the id; services check whose image it is.
    """

    default_error_messages = {"invalid": 'Send an object with the id of an uploaded image, as in {{"id": 7}}.'}

    def to_internal_value(self, data: Any) -> int:
        image_id = data.get("id") if isinstance(data, dict) else None
        if not isinstance(image_id, int) or isinstance(image_id, bool) or not 0 < image_id <= MAX_ID:
            self.fail("invalid")
        return image_id

    def to_representation(self, value: int) -> dict[str, int]:
        return {"id": value}


class SmallObjectField(serializers.DictField):
    """A free-form JSON object of at most 16 KiB."""

    default_error_messages = {"too_large": "This object has {size} bytes; at most {max_size} are allowed."}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        value: dict[str, Any] = super().to_internal_value(data)
        size = len(json.dumps(value))
        if size > MAX_OBJECT_BYTES:
            self.fail("too_large", size=size, max_size=MAX_OBJECT_BYTES)
        return value
