"""Reports, decisions, notices and appeals."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.moderation import services
from commerce.moderation.appeals import file_appeal
from commerce.moderation.filters import AppealFilters, NoticeFilters, OwnReportFilters, ReportFilters
from commerce.moderation.models import AbuseReport, Appeal, Notice
from commerce.moderation.reportable_content import read_content
from commerce.moderation.serializers import (
    CONTENT,
    AppealSerializer,
    DecisionSerializer,
    NewAppealSerializer,
    NewReportSerializer,
    NoticeSerializer,
    ReportSerializer,
)
from commerce.reviews.serializers import serialize_content
from shared.accounts.permissions import HasRole, IsSignedIn, ReadOnly, current_user
from shared.api.limits.throttling import RateLimitThrottle
from shared.api.lists.pagination import PagePagination

MODERATOR = HasRole.of("SUPER_ADMIN")
CONTENT_WRITES = [RateLimitThrottle.of("content", "CONTENT_WRITE_LIMIT")]


@extend_schema_view(get=extend_schema(operation_id="abuse_reports", tags=["Moderation"], summary="List reports"))
class ReportListView(ListAPIView[AbuseReport]):
    """The open ones unless you name a `status`, newest first; for super admins."""

    permission_classes = [(IsSignedIn & ~ReadOnly) | MODERATOR]
    throttle_classes = CONTENT_WRITES
    serializer_class = ReportSerializer
    filterset_class = ReportFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[AbuseReport]":
        return AbuseReport.objects.order_by("-created_at", "-id")

    @extend_schema(
        operation_id="report_abuse",
        tags=["Moderation"],
        summary="Report a review or a question",
        request=NewReportSerializer,
        responses={201: ReportSerializer},
    )
    def post(self, request: Request) -> Response:
        """Once; a second report of the same is 409."""
        body = NewReportSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        report = services.file_report(user=request.auth.user, **body.validated_data, now=timezone.now())
        return Response(self.get_serializer(report).data, status=201)


@extend_schema_view(get=extend_schema(operation_id="abuse_report", tags=["Moderation"], summary="Read a report"))
class ReportView(RetrieveAPIView[AbuseReport]):
    """Whatever its status; for super admins."""

    permission_classes = [MODERATOR]
    serializer_class = ReportSerializer
    filterset_class = ReportFilters

    def get_queryset(self) -> "QuerySet[AbuseReport]":
        return AbuseReport.objects.all()

    @extend_schema(
        operation_id="delete_abuse_report",
        tags=["Moderation"],
        summary="Delete a report",
        responses=OpenApiTypes.BOOL,
    )
    def delete(self, request: Request, **path: Any) -> Response:
        """The content, and other reports of it, stay as they are."""
        services.delete_report(report_id=self.kwargs["pk"], moderator=request.auth.user, now=timezone.now())
        return Response(True)


class AcceptView(APIView):
    permission_classes = [MODERATOR]

    @extend_schema(
        operation_id="accept_abuse_reports",
        tags=["Moderation"],
        summary="Take reported content down",
        request=DecisionSerializer,
        responses=OpenApiTypes.BOOL,
    )
    def post(self, request: Request) -> Response:
        """It leaves every list and rating at once, and its reports are accepted. Author and reporters are told once the
        decision can no longer be undone."""
        body = _decision(request)
        services.accept_report(
            model_type=body.validated_data["model_type"],
            model_id=body.validated_data["model_id"],
            moderator=request.auth.user,
            words=body.words(),
            now=timezone.now(),
        )
        return Response(True)


class RejectView(APIView):
    permission_classes = [MODERATOR]

    @extend_schema(
        operation_id="reject_abuse_reports",
        tags=["Moderation"],
        summary="Keep reported content",
        request=DecisionSerializer,
        responses=CONTENT,
    )
    def post(self, request: Request) -> Response:
        """All reports of it are deleted; it is shown again where it was hidden. Answers the review or the question."""
        body = _decision(request)
        decision = services.reject_report(
            model_type=body.validated_data["model_type"],
            model_id=body.validated_data["model_id"],
            moderator=request.auth.user,
            words=body.words(),
            now=timezone.now(),
        )
        return Response(serialize_content(read_content(decision.case)))


@extend_schema_view(get=extend_schema(operation_id="my_reports", tags=["Moderation"], summary="List your reports"))
class OwnReportListView(ListAPIView[AbuseReport]):
    """Newest first, with what became of them. Those of content that was kept are gone; a notice says so."""

    permission_classes = [IsSignedIn]
    serializer_class = ReportSerializer
    filterset_class = OwnReportFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[AbuseReport]":
        user = current_user(self.request)
        return AbuseReport.objects.for_user(user).order_by("-id") if user else AbuseReport.objects.none()


@extend_schema_view(get=extend_schema(operation_id="notices", tags=["Moderation"], summary="List your notices"))
class NoticeListView(ListAPIView[Notice]):
    """What was decided about what you wrote or reported, newest first."""

    permission_classes = [IsSignedIn]
    serializer_class = NoticeSerializer
    filterset_class = NoticeFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Notice]":
        return asked_notices(self.request).order_by("-due_at", "-id")


@extend_schema_view(get=extend_schema(operation_id="notice", tags=["Moderation"], summary="Read a notice"))
class NoticeView(RetrieveAPIView[Notice]):
    """One of yours."""

    permission_classes = [IsSignedIn]
    serializer_class = NoticeSerializer
    filterset_class = NoticeFilters

    def get_queryset(self) -> "QuerySet[Notice]":
        return asked_notices(self.request)


@extend_schema_view(get=extend_schema(operation_id="appeals", tags=["Moderation"], summary="List your appeals"))
class AppealListView(ListAPIView[Appeal]):
    """Newest first."""

    permission_classes = [IsSignedIn]
    throttle_classes = CONTENT_WRITES
    serializer_class = AppealSerializer
    filterset_class = AppealFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Appeal]":
        return asked_appeals(self.request).order_by("-id")

    @extend_schema(
        operation_id="appeal",
        tags=["Moderation"],
        summary="Appeal against a removal",
        request=NewAppealSerializer,
        responses={201: AppealSerializer},
    )
    def post(self, request: Request) -> Response:
        """Once for each removal, until the `appeal_until` of its notice."""
        body = NewAppealSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        appeal = file_appeal(author=request.auth.user, **body.validated_data, now=timezone.now())
        return Response(self.get_serializer(appeal).data, status=201)


@extend_schema_view(get=extend_schema(operation_id="read_appeal", tags=["Moderation"], summary="Read an appeal"))
class AppealView(RetrieveAPIView[Appeal]):
    """One of yours."""

    permission_classes = [IsSignedIn]
    serializer_class = AppealSerializer
    filterset_class = AppealFilters

    def get_queryset(self) -> "QuerySet[Appeal]":
        return asked_appeals(self.request)


def asked_notices(request: Request) -> "QuerySet[Notice]":
    user = current_user(request)
    notices = Notice.objects.select_related("decision__case")
    return notices.for_user(user, timezone.now()) if user else notices.none()


def asked_appeals(request: Request) -> "QuerySet[Appeal]":
    user = current_user(request)
    appeals = Appeal.objects.select_related("case")
    return appeals.for_user(user) if user else appeals.none()


def _decision(request: Request) -> DecisionSerializer:
    body = DecisionSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    return body
