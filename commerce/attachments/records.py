"""How other records show an attachment: `{id, original, thumbnail}`, the last for images only."""

from typing import Any

from django.http import HttpRequest
from rest_framework import serializers
from rest_framework.request import Request

from commerce.attachments import storage
from commerce.attachments.models import Attachment
from commerce.attachments.sizes import thumbnail_of


class AttachmentRecordSerializer(serializers.Serializer[Attachment]):
    """For answers alone. With the request in its context, as DRF's views give it, the addresses are absolute."""

    id = serializers.IntegerField()
    original = serializers.URLField(help_text="The file. Its last segment is the file's name.")
    thumbnail = serializers.URLField(required=False, help_text="At most 368 x 232, in WebP; of images only.")

    def to_representation(self, instance: Attachment) -> dict[str, Any]:
        request = self.context.get("request")
        record: dict[str, Any] = {"id": instance.pk, "original": storage.original_url(instance, request)}
        if instance.width is not None and instance.height is not None:
            size = thumbnail_of(instance.width, instance.height)
            record["thumbnail"] = storage.size_url(instance, size, request)
        return record


def attachment_record(attachment: Attachment, request: Request | HttpRequest | None = None) -> dict[str, Any]:
    """The record, for those who write no serializer."""
    return AttachmentRecordSerializer(context={"request": request}).to_representation(attachment)
