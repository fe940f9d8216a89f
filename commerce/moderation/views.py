"""Views of reports, decisions, notices and appeals."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.moderation import schema, services
from commerce.moderation.appeals import file_appeal
from commerce.moderation.filters import AppealFilters, DecisionFilters, NoticeFilters, OwnReportFilters, ReportFilters
from commerce.moderation.models import AbuseReport, Appeal, Decision, Notice
from commerce.moderation.reportable_content import get_content
from commerce.moderation.serializers import (
    AppealSerializer,
    DecisionRecordSerializer,
    DecisionSerializer,
    NewAppealSerializer,
    NewReportSerializer,
    NoticeSerializer,
    ReportSerializer,
)
from commerce.moderation.undo import undo_decision
from commerce.reviews.serializers import serialize_content
from shared.accounts.permissions import HasRole, IsSignedIn
from shared.api.limits.throttling import RateLimitThrottle
from shared.api.lists.pagination import PagePagination
from shared.api.viewsets import ApiViewSet, CreateMixin, DestroyMixin

CONTENT_WRITES = [RateLimitThrottle.of("content", "CONTENT_WRITE_LIMIT")]


@schema.describe_reports
class ReportViewSet(CreateMixin, DestroyMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Abuse reports: filed by users, read, accepted, rejected and deleted by moderators."""

    queryset = AbuseReport.objects.all()
    permission_classes = [HasRole.of("SUPER_ADMIN")]
    action_permission_classes = {"create": [IsSignedIn]}
    throttle_classes = CONTENT_WRITES
    serializer_class = ReportSerializer
    request_serializer_classes = {
        "create": NewReportSerializer,
        "accept": DecisionSerializer,
        "reject": DecisionSerializer,
    }
    filterset_class = ReportFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[AbuseReport]":
        return AbuseReport.objects.order_by("-created_at", "-id")

    def perform_create(self, serializer: Any) -> AbuseReport:
        return services.file_report(user=self.request.auth.user, **serializer.validated_data, now=timezone.now())

    def perform_destroy(self, instance: AbuseReport) -> None:
        services.delete_report(report_id=instance.pk, moderator=self.request.auth.user, now=timezone.now())

    @action(methods=["POST"], detail=False, throttle_classes=[])
    def accept(self, request: Request) -> Response:
        decision = self.validated().decision()
        services.accept_report(**decision, moderator=request.auth.user, may_overrule=True, now=timezone.now())
        return Response(True)

    @action(methods=["POST"], detail=False, throttle_classes=[])
    def reject(self, request: Request) -> Response:
        decision = services.reject_report(
            **self.validated().decision(), moderator=request.auth.user, may_overrule=True, now=timezone.now()
        )
        return Response(serialize_content(get_content(decision.case)))


@schema.describe_decisions
class DecisionViewSet(ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Decisions of moderators and rules: read, undone, and taken-down content restored, by moderators."""

    queryset = Decision.objects.all()
    permission_classes = [HasRole.of("SUPER_ADMIN")]
    serializer_class = DecisionRecordSerializer
    filterset_class = DecisionFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Decision]":
        return Decision.objects.select_related("case").order_by("-id")

    @action(methods=["POST"], detail=True)
    def undo(self, request: Request, **path: Any) -> Response:
        decision = undo_decision(decision_id=path["pk"], moderator=request.auth.user, now=timezone.now())
        return Response(self.represent(decision))

    @action(methods=["POST"], detail=True)
    def restore(self, request: Request, **path: Any) -> Response:
        case = self.get_object().case
        decision = services.restore_content(
            model_type=case.model_type, model_id=case.model_id, moderator=request.auth.user, now=timezone.now()
        )
        return Response(self.represent(decision))


@schema.describe_own_reports
class OwnReportViewSet(ListModelMixin, ApiViewSet):
    """Reports of the signed-in user."""

    queryset = AbuseReport.objects.all()
    permission_classes = [IsSignedIn]
    serializer_class = ReportSerializer
    filterset_class = OwnReportFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[AbuseReport]":
        return AbuseReport.objects.for_user(self.request.auth.user).order_by("-id")


@schema.describe_notices
class NoticeViewSet(ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Notices to the signed-in user."""

    queryset = Notice.objects.all()
    permission_classes = [IsSignedIn]
    serializer_class = NoticeSerializer
    filterset_class = NoticeFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Notice]":
        notices = Notice.objects.for_user(self.request.auth.user, timezone.now())
        return notices.select_related("decision__case").order_by("-due_at", "-id")


@schema.describe_appeals
class AppealViewSet(CreateMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Appeals of the signed-in user."""

    queryset = Appeal.objects.all()
    permission_classes = [IsSignedIn]
    throttle_classes = CONTENT_WRITES
    serializer_class = AppealSerializer
    request_serializer_classes = {"create": NewAppealSerializer}
    filterset_class = AppealFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Appeal]":
        return Appeal.objects.for_user(self.request.auth.user).select_related("case").order_by("-id")

    def perform_create(self, serializer: Any) -> Appeal:
        return file_appeal(author=self.request.auth.user, **serializer.validated_data, now=timezone.now())
