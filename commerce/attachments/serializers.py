"""Serializers of attachments, of an attachment within another record, and of presigned uploads."""

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest
from rest_framework import serializers
from rest_framework.request import Request

from commerce.attachments import storage
from commerce.attachments.images.sizes import as_avif, thumbnail_size, variant_sizes
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
