"""An attachment within another record: `{id, original, thumbnail}`, with a thumbnail for images only."""

from typing import Any

from django.http import HttpRequest
from rest_framework import serializers
from rest_framework.request import Request

from commerce.attachments import storage
from commerce.attachments.images.sizes import thumbnail_size
from commerce.attachments.models import Attachment


class AttachmentRecordSerializer(serializers.Serializer[Attachment]):
    """Read-only serializer of an attachment. URLs are absolute where the context has a request."""

    id = serializers.IntegerField(help_text="Identifier of the attachment.")
    original = serializers.URLField(help_text="URL of the file. Its last segment is the file's name.")
    thumbnail = serializers.URLField(
        required=False, help_text="URL of a WebP copy of at most 368 x 232 pixels. Only images have one."
    )

    def to_representation(self, instance: Attachment) -> dict[str, Any]:
        request = self.context.get("request")
        record: dict[str, Any] = {"id": instance.pk, "original": storage.original_url(instance, request)}
        if instance.width is not None and instance.height is not None:
            size = thumbnail_size(instance.width, instance.height)
            record["thumbnail"] = storage.size_url(instance, size, request)
        return record


def attachment_record(attachment: Attachment, request: Request | HttpRequest | None = None) -> dict[str, Any]:
    """Return the attachment's record, for code without a serializer."""
    return AttachmentRecordSerializer(context={"request": request}).to_representation(attachment)
