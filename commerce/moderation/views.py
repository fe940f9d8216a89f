"""Views of reports, decisions, notices and appeals."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.moderation import schema, services
from commerce.moderation.appeals import decide_appeal, file_appeal
from commerce.moderation.cases import find_case
from commerce.moderation.filters import (
    AppealFilters,
    DecisionFilters,
    NoticeFilters,
    OwnReportFilters,
    ReportFilters,
    SanctionFilters,
)
from commerce.moderation.models import AbuseReport, Appeal, Decision, Notice, ReportReason, Sanction
from commerce.moderation.reportable_content import ContentNotFound, get_content, parse_kind
from commerce.moderation.sanctions import appeal_sanction, impose_sanction, keep_sanction, lift_sanction
from commerce.moderation.serializers import (
    AppealSerializer,
    CaseClaimSerializer,
    ContentKeySerializer,
    DecisionMessageSerializer,
    DecisionRecordSerializer,
    DecisionSerializer,
    ModeratedSanctionSerializer,
    NewAppealSerializer,
    NewReportSerializer,
    NewSanctionSerializer,
    NoticeSerializer,
    ReportReasonSerializer,
    ReportSerializer,
    SanctionAppealSerializer,
    SanctionSerializer,
)
from commerce.moderation.undo import undo_decision
from commerce.reviews.serializers import serialize_content
from shared.accounts.models import User
from shared.accounts.permissions import HasRole, IsSignedIn, ReadOnly
from shared.accounts.roles import Role
from shared.api.errors import ApiError
from shared.api.limits.throttling import RateLimitThrottle
from shared.api.lists.pagination import ArrayPagination, PagePagination
from shared.api.reads.conditional import public_read
from shared.api.viewsets import ApiViewSet, CreateMixin, DestroyMixin

Action = Decision.Action
MODERATOR_ROLES = (Role.MODERATOR, Role.SUPER_ADMIN)
IsModerator = HasRole.of(*MODERATOR_ROLES)
CONTENT_WRITES = [RateLimitThrottle.of("content", "CONTENT_WRITE_LIMIT")]


@schema.describe_reports
class ReportViewSet(CreateMixin, DestroyMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Abuse reports: filed by users, read, accepted, rejected and deleted by moderators."""

    queryset = AbuseReport.objects.all()
    permission_classes = [IsModerator]
    action_permission_classes = {"create": [IsSignedIn]}
    throttle_classes = CONTENT_WRITES
    serializer_class = ReportSerializer
    request_serializer_classes = {
        "create": NewReportSerializer,
        "accept": DecisionSerializer,
        "reject": DecisionSerializer,
        "hide": DecisionSerializer,
        "show": DecisionSerializer,
        "escalate": DecisionSerializer,
        "claim": ContentKeySerializer,
        "release": ContentKeySerializer,
    }
    filterset_class = ReportFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[AbuseReport]":
        return AbuseReport.objects.select_related("reason").order_by("-created_at", "-id")

    def perform_create(self, serializer: Any) -> AbuseReport:
        return services.file_report(user=self.request.auth.user, **serializer.validated_data, now=timezone.now())

    def perform_destroy(self, instance: AbuseReport) -> None:
        services.delete_report(report_id=instance.pk, moderator=self.request.auth.user, now=timezone.now())

    @action(methods=["POST"], detail=False, throttle_classes=[])
    def accept(self, request: Request) -> Response:
        self._decide(Action.ACCEPTED, may_overrule=True)
        return Response(True)

    @action(methods=["POST"], detail=False, throttle_classes=[])
    def reject(self, request: Request) -> Response:
        return Response(serialize_content(get_content(self._decide(Action.REJECTED, may_overrule=True).case)))

    @action(methods=["POST"], detail=False, throttle_classes=[])
    def hide(self, request: Request) -> Response:
        return Response(DecisionRecordSerializer(self._decide(Action.HIDDEN)).data)

    @action(methods=["POST"], detail=False, throttle_classes=[])
    def show(self, request: Request) -> Response:
        return Response(DecisionRecordSerializer(self._decide(Action.SHOWN)).data)

    @action(methods=["POST"], detail=False, throttle_classes=[])
    def escalate(self, request: Request) -> Response:
        return Response(DecisionRecordSerializer(self._decide(Action.ESCALATED)).data)

    @action(methods=["POST"], detail=False, throttle_classes=[])
    def claim(self, request: Request) -> Response:
        case = services.claim_case(case_id=self._case_id(), moderator=request.auth.user, now=timezone.now())
        return Response(CaseClaimSerializer(case).data)

    @action(methods=["POST"], detail=False, throttle_classes=[])
    def release(self, request: Request) -> Response:
        services.release_case(case_id=self._case_id(), moderator=request.auth.user)
        return Response(True)

    def _decide(self, action: str, *, may_overrule: bool = False) -> Decision:
        body, moderator = self.validated().decision(), self.request.auth.user
        return services.decide(action, **body, moderator=moderator, may_overrule=may_overrule, now=timezone.now())

    def _case_id(self) -> int:
        data = self.validated().validated_data
        case = find_case(parse_kind(data["model_type"]), data["model_id"])
        if case is None:
            raise ContentNotFound("Nobody has reported a review or question with this model_type and model_id.")
        return case.pk


@public_read
@schema.describe_reasons
class ReportReasonViewSet(ListModelMixin, ApiViewSet):
    """Reasons that reporters can choose, for everybody to read."""

    queryset = ReportReason.objects.filter(is_active=True)
    permission_classes = [ReadOnly]
    serializer_class = ReportReasonSerializer
    pagination_class = ArrayPagination


@schema.describe_decisions
class DecisionViewSet(ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Decisions of moderators and rules: read, undone, and taken-down content restored, by moderators."""

    queryset = Decision.objects.all()
    permission_classes = [IsModerator]
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
        content = {"model_type": case.model_type, "model_id": case.model_id}
        decision = services.decide(Action.RESTORED, **content, moderator=request.auth.user, now=timezone.now())
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
        return AbuseReport.objects.for_user(self.request.auth.user).select_related("reason").order_by("-id")


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
    request_serializer_classes = {
        "create": NewAppealSerializer,
        "keep": DecisionMessageSerializer,
        "overturn": DecisionMessageSerializer,
    }
    action_permission_classes = {"keep": [IsModerator], "overturn": [IsModerator]}
    filterset_class = AppealFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Appeal]":
        appeals = Appeal.objects.select_related("case").order_by("-id")
        user: User = self.request.auth.user
        return appeals if self._reads_all(user) else appeals.for_user(user)

    def _reads_all(self, user: User) -> bool:
        """Return whether the request is for everybody's appeals. Raises ApiError 403 unless a moderator makes it."""
        if self.action != "list":
            return user.role in MODERATOR_ROLES
        if self.request.query_params.get("scope") != "all":
            return False
        if user.role not in MODERATOR_ROLES:
            raise ApiError(403, "Only moderators may list everybody's appeals.")
        return True

    @action(methods=["POST"], detail=True, throttle_classes=[])
    def keep(self, request: Request, **path: Any) -> Response:
        return self._decide(path["pk"], overturn=False)

    @action(methods=["POST"], detail=True, throttle_classes=[])
    def overturn(self, request: Request, **path: Any) -> Response:
        return self._decide(path["pk"], overturn=True)

    def _decide(self, appeal_id: int, *, overturn: bool) -> Response:
        message = self.validated().message()
        moderator: User = self.request.auth.user
        decide_appeal(
            appeal_id=appeal_id, overturn=overturn, moderator=moderator, message=message, now=timezone.now()
        )  # fmt: skip
        return Response(self.represent(self.get_object()))

    def perform_create(self, serializer: Any) -> Appeal:
        return file_appeal(author=self.request.auth.user, **serializer.validated_data, now=timezone.now())


@schema.describe_sanctions
class SanctionViewSet(CreateMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Sanctions: imposed, lifted and kept by moderators, read and appealed against by the users who have them."""

    queryset = Sanction.objects.all()
    permission_classes = [IsSignedIn]
    action_permission_classes = {
        "create": [IsModerator],
        "destroy": [IsModerator],
        "keep": [IsModerator],
    }
    serializer_class = ModeratedSanctionSerializer
    request_serializer_classes = {"create": NewSanctionSerializer, "appeal": SanctionAppealSerializer}
    filterset_class = SanctionFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Sanction]":
        user: User = self.request.auth.user
        return Sanction.objects.all() if user.role in MODERATOR_ROLES else Sanction.objects.for_user(user)

    def get_response_serializer_class(self) -> Any:
        user = getattr(self.request.auth, "user", None)
        return ModeratedSanctionSerializer if user is None or user.role in MODERATOR_ROLES else SanctionSerializer

    def perform_create(self, serializer: Any) -> Sanction:
        return impose_sanction(moderator=self.request.auth.user, **serializer.validated_data, now=timezone.now())

    def destroy(self, request: Request, **path: Any) -> Response:
        lift_sanction(sanction_id=path["pk"], moderator=request.auth.user, now=timezone.now())
        return Response(True)

    @action(methods=["POST"], detail=True)
    def keep(self, request: Request, **path: Any) -> Response:
        sanction = keep_sanction(sanction_id=path["pk"], moderator=request.auth.user, now=timezone.now())
        return Response(self.represent(sanction))

    @action(methods=["POST"], detail=True, throttle_classes=CONTENT_WRITES)
    def appeal(self, request: Request, **path: Any) -> Response:
        message = self.validated().validated_data["message"]
        sanction = appeal_sanction(
            sanction_id=path["pk"], user=request.auth.user, message=message, now=timezone.now()
        )  # fmt: skip
        return Response(self.represent(sanction))
