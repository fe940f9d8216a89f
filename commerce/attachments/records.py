"""How other records show an attachment: `{id, original, thumbnail}`, the last for images only."""

from typing import Any

from django.http import HttpRequest
from rest_framework import serializers
from rest_framework.request import Request

from commerce.attachments import storage
from commerce.attachments.models import Attachment
from commerce.attachments.sizes import thumbnail_of


class AttachmentRecordSerializer(serializers.ModelSerializer[Attachment]):
    """Read-only. With the request in its context, as DRF's views give it, the addresses are absolute."""

    original = serializers.SerializerMethodField()
    thumbnail = serializers.SerializerMethodField(required=False, help_text="At most 368 x 232; of images only.")

    class Meta:
        model = Attachment
        fields = ["id", "original", "thumbnail"]
        read_only_fields = fields

    def get_original(self, attachment: Attachment) -> str:
        return storage.original_url(attachment, self.context.get("request"))

    def get_thumbnail(self, attachment: Attachment) -> str | None:
        if attachment.width is None or attachment.height is None:
            return None
        size = thumbnail_of(attachment.width, attachment.height)
        return storage.size_url(attachment, size, self.context.get("request"))

    def to_representation(self, instance: Attachment) -> dict[str, Any]:
        record: dict[str, Any] = super().to_representation(instance)
        if not instance.is_image:
            del record["thumbnail"]
        return record


def attachment_record(attachment: Attachment, request: Request | HttpRequest | None = None) -> dict[str, Any]:
    """The record, for those who write no serializer."""
    return dict(AttachmentRecordSerializer(attachment, context={"request": request}).data)
