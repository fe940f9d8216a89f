"""Attachments on the wire."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
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

    variants = serializers.SerializerMethodField(required=False, help_text="Smaller copies in WebP; of images only.")

    class Meta(AttachmentRecordSerializer.Meta):
        fields = [*AttachmentRecordSerializer.Meta.fields, "variants"]
        read_only_fields = fields

    @extend_schema_field(VariantSerializer(many=True))
    def get_variants(self, attachment: Attachment) -> list[dict[str, Any]]:
        if attachment.width is None or attachment.height is None:
            return []
        return [
            {
                "url": storage.size_url(attachment, size, self.context.get("request")),
                "width": size.width,
                "height": size.height,
            }
            for size in variants_of(attachment.width, attachment.height)
        ]

    def to_representation(self, instance: Attachment) -> dict[str, Any]:
        record = super().to_representation(instance)
        if not instance.is_image:
            del record["variants"]
        return record


class AttachmentSerializer(UploadedSerializer):
    """What a list and a single read answer."""

    class Meta(UploadedSerializer.Meta):
        fields = [*UploadedSerializer.Meta.fields, "created_at", "updated_at"]
        read_only_fields = fields


class UploadSerializer(serializers.Serializer[Any]):
    """The form of an upload, as OpenAPI tells it; the view reads it itself, since it names the files it refuses."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        files = serializers.ListField(
            child=serializers.FileField(), help_text="Up to 10 files of up to 10 MiB, each as a part of this name."
        )
        return {"attachment[]": files}


class PresignSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=255, help_text="The file's name, as its owner knows it.")


class PresignedSerializer(serializers.Serializer[Any]):
    upload_id = serializers.CharField(help_text="For /attachments/finalize, once the file is sent.")
    url = serializers.URLField(help_text="Where to POST a form: these fields, then the file as `file`.")
    fields = serializers.DictField(child=serializers.CharField())  # type: ignore[assignment]
    expires_at = serializers.DateTimeField()


class FinalizeSerializer(serializers.Serializer[Any]):
    upload_id = serializers.CharField(max_length=2000)
