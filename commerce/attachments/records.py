"""An attachment within another record: `{id, original}`, and for images `thumbnail`, `alt` and `focal_point` too."""

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest
from rest_framework import serializers
from rest_framework.request import Request

from commerce.attachments import storage
from commerce.attachments.images.sizes import thumbnail_size
from commerce.attachments.models import Attachment


class FractionField(serializers.FloatField):
    """A number from 0 to 1. Others are errors, NaN included."""

    default_error_messages = {"range": "Send a number from 0 to 1."}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=0, max_value=1, **kwargs)

    def to_internal_value(self, data: Any) -> float:
        number = super().to_internal_value(data)
        if isinstance(data, bool) or not 0 <= number <= 1:
            self.fail("range")
        return round(number, 4)


class FocalPointSerializer(serializers.Serializer[Any]):
    """The point of an image that a crop should keep."""

    x = FractionField(help_text="Distance from the left edge, as a fraction of the width.")
    y = FractionField(help_text="Distance from the top edge, as a fraction of the height.")


class AttachmentRecordSerializer(serializers.Serializer[Attachment]):
    """Read-only serializer of an attachment. URLs are absolute where the context has a request."""

    id = serializers.IntegerField(help_text="Identifier of the attachment.")
    original = serializers.URLField(help_text="URL of the file. Its last segment is the file's name.")
    thumbnail = serializers.URLField(
        required=False, help_text="URL of a WebP copy of at most 368 x 232 pixels. Only images have one."
    )
    alt = serializers.CharField(
        required=False,
        help_text="Alternative text; of a product's image that has none, the product's name. Only images have one.",
    )
    focal_point = FocalPointSerializer(
        required=False, allow_null=True, help_text="What a cropped image should show, or null. Only images have one."
    )

    def to_representation(self, instance: Attachment) -> dict[str, Any]:
        request = self.context.get("request")
        record: dict[str, Any] = {"id": instance.pk, "original": storage.original_url(instance, request)}
        if instance.width is not None and instance.height is not None:
            size = thumbnail_size(instance.width, instance.height)
            record["thumbnail"] = storage.size_url(instance, size, request)
            record["alt"] = instance.alt
            has_focal_point = instance.focal_x is not None
            record["focal_point"] = {"x": instance.focal_x, "y": instance.focal_y} if has_focal_point else None
        return record


def suggest_alt(records: Iterable[dict[str, Any] | None], name: str) -> None:
    """Set `alt` of the images among these records that have none to the name of what they show."""
    for record in records:
        if record and record.get("alt") == "":
            record["alt"] = name


def attachment_record(attachment: Attachment, request: Request | HttpRequest | None = None) -> dict[str, Any]:
    """Return the attachment's record, for code without a serializer."""
    return AttachmentRecordSerializer(context={"request": request}).to_representation(attachment)
