"""Serializers of attachments and of presigned uploads."""

from typing import Any

from rest_framework import serializers

from commerce.attachments import storage
from commerce.attachments.images.sizes import as_avif, variant_sizes
from commerce.attachments.models import Attachment
from commerce.attachments.records import AttachmentRecordSerializer, FocalPointSerializer


class VariantSerializer(serializers.Serializer[Any]):
    """A smaller copy of an image, for `srcset`."""

    url = serializers.URLField(help_text="URL of the copy.")
    width = serializers.IntegerField(help_text="Width in pixels.")
    height = serializers.IntegerField(help_text="Height in pixels.")
    avif = serializers.URLField(
        allow_null=True, help_text="URL of the same copy as AVIF; null without one, or until a worker has made it."
    )


class UploadedSerializer(AttachmentRecordSerializer):
    """Response to an upload."""

    variants = VariantSerializer(
        many=True, required=False, help_text="WebP copies that are narrower than the image. Only images have them."
    )

    def to_representation(self, instance: Attachment) -> dict[str, Any]:
        record = super().to_representation(instance)
        if instance.width is not None and instance.height is not None:
            request = self.context.get("request")
            record["variants"] = [
                {
                    "url": storage.size_url(instance, size, request),
                    "width": size.width,
                    "height": size.height,
                    "avif": storage.size_url(instance, avif, request) if avif and instance.has_avif else None,
                }
                for size in variant_sizes(instance.width, instance.height)
                for avif in [as_avif(size)]
            ]
        return record


class AttachmentSerializer(UploadedSerializer):
    """An attachment in a list or on its own."""

    created_at = serializers.DateTimeField(help_text="Time of the upload.")
    updated_at = serializers.DateTimeField(help_text="Time of the last change, such as the creation of its variants.")

    def to_representation(self, instance: Attachment) -> dict[str, Any]:
        times = {
            name: self.fields[name].to_representation(getattr(instance, name)) for name in ("created_at", "updated_at")
        }
        return super().to_representation(instance) | times


class AttachmentWriteSerializer(serializers.Serializer[Any]):
    """The fields of an image that its owner may change."""

    alt = serializers.CharField(
        max_length=500, required=False, allow_blank=True, help_text="Text for whoever cannot see the image."
    )
    focal_point = FocalPointSerializer(
        required=False, allow_null=True, help_text="Point of the image that a crop should keep, or null."
    )


class PresignSerializer(serializers.Serializer[Any]):
    """Request for a presigned form."""

    name = serializers.CharField(max_length=255, help_text="Name of the file, which its safe name is made from.")


class PresignedSerializer(serializers.Serializer[Any]):
    """A presigned form."""

    upload_id = serializers.CharField(help_text="Identifier to send to /attachments/finalize after the upload.")
    url = serializers.URLField(help_text="URL to POST the form to.")
    fields = serializers.DictField(  # type: ignore[assignment]
        child=serializers.CharField(), help_text="Fields of the form. Send them before the file, which is named `file`."
    )
    expires_at = serializers.DateTimeField(help_text="Time after which the form is refused.")


class FinalizeSerializer(serializers.Serializer[Any]):
    """Request to make an attachment of an uploaded file."""

    upload_id = serializers.CharField(max_length=2000, help_text="Identifier from /attachments/presign.")
