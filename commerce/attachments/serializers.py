"""Attachments on the wire."""

from typing import Any

from rest_framework import serializers

from commerce.attachments import storage
from commerce.attachments.models import Attachment
from commerce.attachments.records import AttachmentRecordSerializer
from commerce.attachments.sizes import variants_of


class VariantSerializer(serializers.Serializer[Any]):
    """One of `srcset`'s sizes."""

    url = serializers.URLField()
    width = serializers.IntegerField()
    height = serializers.IntegerField()


class UploadedSerializer(AttachmentRecordSerializer):
    """What an upload answers."""

    variants = VariantSerializer(many=True, required=False, help_text="Smaller copies, in WebP; of images only.")

    def to_representation(self, instance: Attachment) -> dict[str, Any]:
        record = super().to_representation(instance)
        if instance.width is not None and instance.height is not None:
            record["variants"] = [
                {
                    "url": storage.size_url(instance, size, self.context.get("request")),
                    "width": size.width,
                    "height": size.height,
                }
                for size in variants_of(instance.width, instance.height)
            ]
        return record


class AttachmentSerializer(UploadedSerializer):
    """What a list and a single read answer."""

    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()

    def to_representation(self, instance: Attachment) -> dict[str, Any]:
        times = {name: self.fields[name].to_representation(getattr(instance, name)) for name in _TIMES}
        return super().to_representation(instance) | times


_TIMES = ("created_at", "updated_at")

# The form of an upload, as OpenAPI tells it. The view reads it itself, since it names the files it refuses.
UPLOAD_FORM = {
    "multipart/form-data": {
        "type": "object",
        "required": ["attachment[]"],
        "properties": {
            "attachment[]": {
                "type": "array",
                "minItems": 1,
                "maxItems": 10,
                "items": {"type": "string", "format": "binary"},
                "description": "Up to 10 files of up to 10 MiB, each as a part of this name.",
            }
        },
    }
}


class PresignSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=255, help_text="The file's name, as its owner knows it.")


class PresignedSerializer(serializers.Serializer[Any]):
    upload_id = serializers.CharField(help_text="For /attachments/finalize, once the file is sent.")
    url = serializers.URLField(help_text="Where to POST a form: these fields, then the file as `file`.")
    fields = serializers.DictField(child=serializers.CharField())  # type: ignore[assignment]
    expires_at = serializers.DateTimeField()


class FinalizeSerializer(serializers.Serializer[Any]):
    upload_id = serializers.CharField(max_length=2000)
