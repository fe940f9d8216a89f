"""Views of attachments."""

import errno
from collections.abc import Sequence
from typing import Any, cast

import structlog
from django.conf import settings
from django.core.exceptions import TooManyFilesSent
from django.core.files import File
from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.parsers import BaseParser, MultiPartParser
from rest_framework.permissions import AllowAny, BasePermission
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from commerce.attachments import presigned_uploads, schema, services
from commerce.attachments.filters import AttachmentFilters
from commerce.attachments.images.worker_client import ImageWorkerUnavailable
from commerce.attachments.models import Attachment
from commerce.attachments.serializers import (
    AttachmentSerializer,
    AttachmentWriteSerializer,
    FinalizeSerializer,
    PresignedSerializer,
    PresignSerializer,
    UploadedSerializer,
)
from commerce.attachments.uploads.antivirus import ScannerUnavailable
from commerce.attachments.uploads.preparation import FIELD
from shared.accounts.models import User
from shared.accounts.permissions import IsSignedIn
from shared.api.errors import ApiError, ValidationFailed
from shared.api.idempotency.store import IdempotencyMode, store_keyed_response
from shared.api.limits.throttling import RateLimitThrottle
from shared.api.lists.pagination import PagePagination
from shared.api.reads.conditional import public_read
from shared.api.viewsets import ApiViewSet

UPLOADS = RateLimitThrottle.of("uploads", "UPLOAD_LIMIT")
DELETES = RateLimitThrottle.of("deletes", "DELETE_LIMIT", methods=("DELETE",))

logger = structlog.get_logger(__name__)


class UploadErrorsMixin(APIView):
    """A view that answers 503 while the server cannot accept files."""

    def handle_exception(self, exc: Exception) -> Response:
        return super().handle_exception(_unavailable_error(exc) or exc)


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


@schema.describe_attachments
@public_read
class AttachmentViewSet(UploadErrorsMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Attachments: public to read, uploaded, described and deleted by signed-in users."""

    queryset = Attachment.objects.all()
    serializer_class = AttachmentSerializer
    pagination_class = PagePagination
    filterset_class = AttachmentFilters
    idempotency = IdempotencyMode.DEFERRED  # images take long, and files are not part of a transaction
    public_methods = ("GET", "HEAD", "PUT", "OPTIONS")  # need no credentials and ignore those sent, even expired ones

    @property
    def parser_classes(self) -> Sequence[type[BaseParser]]:  # type: ignore[override]
        return APIView.parser_classes if self.detail else [MultiPartParser]

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset if self.detail else super().filter_queryset(queryset)

    def get_throttles(self) -> list[BaseThrottle]:
        return [DELETES() if self.detail else UPLOADS()]

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [] if self._is_public() else super().get_authenticators()

    def get_permissions(self) -> list[BasePermission]:
        return [AllowAny() if self._is_public() else IsSignedIn()]

    def create(self, request: Request) -> Response:
        owner, files = cast(User, request.user), _incoming_files(request)
        attachments = services.upload_attachments(
            owner=owner,
            incoming_files=files,
            now=timezone.now(),
            on_created=lambda created: _store_response(request, _uploaded(request, created)),
        )
        return Response(_uploaded(request, attachments))

    def update(self, request: Request, pk: int) -> Response:
        return Response(False)

    def partial_update(self, request: Request, pk: int) -> Response:
        body = AttachmentWriteSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor = cast(User, request.user)
        attachment = services.change_attachment(attachment_id=pk, actor=actor, values=body.validated_data)
        return Response(self.represent(attachment))

    def destroy(self, request: Request, pk: int) -> Response:
        services.delete_attachment(attachment_id=pk, actor=cast(User, request.user), now=timezone.now())
        return Response(True)

    def _is_public(self) -> bool:
        return getattr(self, "request", None) is not None and self.request.method in self.public_methods


def _uploaded(request: Request, attachments: list[Attachment]) -> list[dict[str, Any]]:
    """Return the response's body."""
    return list(UploadedSerializer(cast(Any, attachments), many=True, context={"request": request}).data)


def _store_response(request: Request, body: Any) -> None:
    """Store the response of a request with an Idempotency-Key in the transaction of the attachments.

    Raise ApiError 409 if another request has taken over the key, because this one took so long.
    """
    store_keyed_response(request._request, HttpResponse(JSONRenderer().render(body), content_type="application/json"))


def _incoming_files(request: Request) -> "Sequence[File[bytes]]":
    try:
        files: list[File[bytes]] = request.FILES.getlist(FIELD)
    except TooManyFilesSent:
        raise ValidationFailed({FIELD: [f"Send at most {settings.MAX_UPLOAD_FILES} files."]}) from None
    return files


@schema.describe_presign
class PresignView(APIView):
    """Forms for uploads to S3."""

    throttle_classes = [UPLOADS]

    def post(self, request: Request) -> Response:
        body = PresignSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        owner = cast(User, request.user)
        form = presigned_uploads.presign_upload(owner=owner, name=body.validated_data["name"], now=timezone.now())
        return Response(PresignedSerializer(form).data)


@schema.describe_finalize
class FinalizeView(UploadErrorsMixin, APIView):
    """The end of an upload to S3."""

    throttle_classes = [UPLOADS]
    idempotency = IdempotencyMode.DEFERRED

    def post(self, request: Request) -> Response:
        body = FinalizeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        attachment = presigned_uploads.finalize_upload(
            owner=cast(User, request.user),
            upload_id=body.validated_data["upload_id"],
            now=timezone.now(),
            on_created=lambda created: _store_response(request, _uploaded(request, created)[0]),
        )
        return Response(_uploaded(request, [attachment])[0])
