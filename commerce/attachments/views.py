"""Uploading, listing, reading and deleting attachments."""

import errno
from typing import Any, cast

import structlog
from django.conf import settings
from django.core.exceptions import TooManyFilesSent
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework.authentication import BaseAuthentication
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.parsers import MultiPartParser
from rest_framework.permissions import AllowAny, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.attachments import presigned_uploads, services
from commerce.attachments.filters import AttachmentFilters
from commerce.attachments.images.worker_client import ImageWorkerUnavailable
from commerce.attachments.models import Attachment
from commerce.attachments.serializers import (
    AttachmentSerializer,
    FinalizeSerializer,
    PresignedSerializer,
    PresignSerializer,
    UploadedSerializer,
)
from commerce.attachments.uploads.antivirus import ScannerUnavailable
from commerce.attachments.uploads.preparation import FIELD, IncomingFile
from shared.accounts.models import User
from shared.accounts.permissions import IsSignedIn
from shared.api.errors import ApiError, ValidationFailed
from shared.api.idempotency.store import IdempotencyMode
from shared.api.limits.throttling import RateLimitThrottle
from shared.api.lists.pagination import PagePagination

TAGS = ["Attachments"]
UPLOADS = RateLimitThrottle.of("uploads", "UPLOAD_LIMIT")
DELETES = RateLimitThrottle.of("deletes", "DELETE_LIMIT", methods=("DELETE",))
MEDIA = "https://shop.example/media/attachments/9f86d081884c7d659a2feaa0c55ad015"
UPLOADED = {
    "id": 41,
    "original": f"{MEDIA}/teapot.jpg",
    "thumbnail": f"{MEDIA}/sizes/thumbnail.webp",
    "variants": [{"url": f"{MEDIA}/sizes/w320.webp", "width": 320, "height": 240}],
}
PRESIGNED = {
    "upload_id": "WzQyLCI5Zjg2ZDA4MTg4NGM3ZDY1OSIsInRlYXBvdC5qcGciXQ:1vHk2q:mZ4",
    "url": "https://s3.example/stoa",
    "fields": {"key": "incoming/9f86d081884c7d65/file", "policy": "eyJleHBpcm...", "x-amz-signature": "5d41402a..."},
    "expires_at": "2026-01-10T10:45:00.000000Z",
}
READ = UPLOADED | {"created_at": "2026-01-10T10:30:00.000000Z", "updated_at": "2026-01-10T10:30:00.000000Z"}

# The view reads the form itself, so that its errors can name the files.
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
                "description": "Up to 10 files of up to 10 MiB each.",
            }
        },
    }
}

logger = structlog.get_logger(__name__)


class UploadErrorsMixin(APIView):
    """A view that answers 503 where the server cannot accept files now."""

    def handle_exception(self, exc: Exception) -> Response:
        return super().handle_exception(_unavailable_error(exc) or exc)


class PublicReads(UploadErrorsMixin):
    """Reads ask nobody who they are: a token that is sent along, even a stale one, is ignored there. So does PUT."""

    public_methods = ("GET", "HEAD", "PUT", "OPTIONS")

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [] if self._is_public() else super().get_authenticators()

    def get_permissions(self) -> list[BasePermission]:
        return [AllowAny() if self._is_public() else IsSignedIn()]

    def _is_public(self) -> bool:
        return getattr(self, "request", None) is not None and self.request.method in self.public_methods


def _unavailable_error(error: Exception) -> ApiError | None:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        logger.error("disk_full")
        return ApiError(503, "The file storage is full. Try again later.", headers={"Retry-After": "60"})
    if isinstance(error, ScannerUnavailable):
        logger.error("scanner_unavailable", reason=str(error))
        return ApiError(503, "The virus scanner is unavailable. Try again later.", headers={"Retry-After": "30"})
    if isinstance(error, ImageWorkerUnavailable):
        return ApiError(503, "Too many images are being processed. Try again later.", headers={"Retry-After": "10"})
    return None


@extend_schema_view(
    get=extend_schema(
        operation_id="list_attachments",
        tags=TAGS,
        summary="All attachments, newest first",
        auth=[],
    )
)
class AttachmentsView(PublicReads, ListAPIView[Attachment]):
    queryset = Attachment.objects.all()
    serializer_class = AttachmentSerializer
    filterset_class = AttachmentFilters
    pagination_class = PagePagination
    parser_classes = [MultiPartParser]
    throttle_classes = [UPLOADS]
    idempotency = IdempotencyMode.DEFERRED  # pictures take long, and files are no part of a transaction

    @extend_schema(
        operation_id="upload_attachments",
        tags=TAGS,
        summary="Upload files",
        description="JPEG, PNG, WebP, GIF, AVIF, PDF, ZIP or EPUB, told by content. All of them are stored, or none.",
        request=UPLOAD_FORM,
        responses=UploadedSerializer(many=True),
        examples=[OpenApiExample("Uploaded", value=UPLOADED, response_only=True)],
    )
    def post(self, request: Request) -> Response:
        owner = cast(User, request.user)
        attachments = services.upload_attachments(
            owner=owner, incoming_files=_incoming_files(request), now=timezone.now()
        )
        context = self.get_serializer_context()
        return Response(UploadedSerializer(cast(Any, attachments), many=True, context=context).data)


def _incoming_files(request: Request) -> list[IncomingFile]:
    try:
        files = request.FILES.getlist(FIELD)
    except TooManyFilesSent:
        raise ValidationFailed({FIELD: [f"Send at most {settings.MAX_UPLOAD_FILES} files."]}) from None
    return [IncomingFile(file=cast(Any, file.file), name=file.name or "") for file in files]


@extend_schema_view(
    get=extend_schema(
        operation_id="read_attachment",
        tags=TAGS,
        summary="One attachment",
        auth=[],
        examples=[OpenApiExample("Attachment", value=READ, response_only=True)],
    )
)
class AttachmentView(PublicReads, RetrieveAPIView[Attachment]):
    queryset = Attachment.objects.all()
    serializer_class = AttachmentSerializer
    throttle_classes = [DELETES]

    @extend_schema(
        operation_id="replace_attachment",
        tags=TAGS,
        summary="Not implemented: answers false",
        auth=[],
        request=None,
        responses=OpenApiTypes.BOOL,
        examples=[OpenApiExample("Always", value=False, response_only=True)],
    )
    def put(self, request: Request, pk: int) -> Response:
        return Response(False)

    @extend_schema(
        operation_id="delete_attachment",
        tags=TAGS,
        summary="Delete an attachment and its files",
        responses={200: OpenApiTypes.BOOL},
        examples=[OpenApiExample("Deleted", value=True, response_only=True)],
    )
    def delete(self, request: Request, pk: int) -> Response:
        services.delete_attachment(attachment_id=pk, actor=cast(User, request.user), now=timezone.now())
        return Response(True)


class PresignView(APIView):
    throttle_classes = [UPLOADS]

    @extend_schema(
        operation_id="presign_attachment",
        tags=TAGS,
        summary="A form to send one file straight to S3",
        description="Only where files lie in S3, else 422. Post the fields and then the file as `file`, and finalize.",
        request=PresignSerializer,
        responses=PresignedSerializer,
        examples=[
            OpenApiExample("A file", value={"name": "teapot.jpg"}, request_only=True),
            OpenApiExample("The form", value=PRESIGNED, response_only=True),
        ],
    )
    def post(self, request: Request) -> Response:
        asked = PresignSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        owner = cast(User, request.user)
        form = presigned_uploads.presign_upload(owner=owner, name=asked.validated_data["name"], now=timezone.now())
        return Response(PresignedSerializer(form).data)


class FinalizeView(UploadErrorsMixin, APIView):
    throttle_classes = [UPLOADS]
    idempotency = IdempotencyMode.DEFERRED

    @extend_schema(
        operation_id="finalize_attachment",
        tags=TAGS,
        summary="Make an attachment of a file that was sent to S3",
        request=FinalizeSerializer,
        responses=UploadedSerializer,
        examples=[
            OpenApiExample("The id that presign gave", value={"upload_id": PRESIGNED["upload_id"]}, request_only=True),
            OpenApiExample("Uploaded", value=UPLOADED, response_only=True),
        ],
    )
    def post(self, request: Request) -> Response:
        asked = FinalizeSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        attachment = presigned_uploads.finalize_upload(
            owner=cast(User, request.user), upload_id=asked.validated_data["upload_id"], now=timezone.now()
        )
        return Response(UploadedSerializer(attachment, context={"request": request}).data)
