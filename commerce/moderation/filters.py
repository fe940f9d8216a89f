"""Filters of the lists of reports, notices and appeals."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field

from commerce.moderation.models import AbuseReport, Appeal, Decision, Notice, ReportReason, Sanction
from commerce.moderation.reportable_content import ContentNotFound, parse_kind
from shared.api.lists.filters import IntegerFilter, ListFilterSet


@extend_schema_field({"type": "string", "maxLength": 64, "example": "Review"})
class ContentKindFilter(filters.CharFilter):  # type: ignore[misc]
    """A filter by the kind of the content. Any other text matches nothing."""

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return qs
        try:
            return qs.filter(**{self.field_name: parse_kind(value)})
        except ContentNotFound:
            return qs.none()


@extend_schema_field({"type": "string", "maxLength": 32, "example": "spam"})
class ReasonFilter(filters.CharFilter):  # type: ignore[misc]
    """A filter by the code of a reason.

    The reason is read first: with its id, the database knows how many reports there are.
    """

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return qs
        reason = ReportReason.objects.filter(code=value).first()
        return qs.none() if reason is None else qs.filter(reason=reason)


class ReportStatusFilter(filters.ChoiceFilter):  # type: ignore[misc]
    """A filter by the status of reports with the default `open`."""

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        reports: QuerySet[Any] = super().filter(qs, value or AbuseReport.Status.OPEN)
        return reports


class OwnReportFilters(ListFilterSet):
    search_fields = {name: name for name in ("model_type", "model_id", "status", "message")}
    order_fields = {name: name for name in ("id", "created_at", "updated_at")}
    model_type = ContentKindFilter(help_text="Kind of the content: Review or Question.")
    model_id = IntegerFilter(help_text="Id of a review or question.")
    status = filters.ChoiceFilter(choices=AbuseReport.Status.choices, help_text="Status of the reports.")
    reason = ReasonFilter(max_length=32, help_text="Code of the reports' reason.")

    class Meta:
        model = AbuseReport
        fields: list[str] = []


class ReportFilters(OwnReportFilters):
    search_fields = {name: name for name in ("model_type", "model_id", "status", "message", "user_id")}
    relations = {"user": "user"}
    status = ReportStatusFilter(choices=AbuseReport.Status.choices, help_text="Status of the reports. Default: open.")


class DecisionFilters(ListFilterSet):
    search_fields = {"action": "action", "model_type": "case__model_type", "model_id": "case__model_id"}
    order_fields = {name: name for name in ("id", "created_at")}
    relations = {"moderator": "moderator"}
    model_type = ContentKindFilter("case__model_type", help_text="Kind of the content: Review or Question.")
    model_id = IntegerFilter("case__model_id", help_text="Id of a review or question.")
    action = filters.ChoiceFilter(choices=Decision.Action.choices, help_text="What was decided.")

    class Meta:
        model = Decision
        fields: list[str] = []


class NoticeFilters(ListFilterSet):
    search_fields = {"kind": "kind"}
    order_fields = {"id": "id", "created_at": "due_at"}

    class Meta:
        model = Notice
        fields: list[str] = []


class AppealFilters(ListFilterSet):
    search_fields = {"status": "status"}
    order_fields = {name: name for name in ("id", "created_at", "decided_at")}
    status = filters.ChoiceFilter(choices=Appeal.Status.choices, help_text="Status of the appeals.")

    class Meta:
        model = Appeal
        fields: list[str] = []


class SanctionFilters(ListFilterSet):
    search_fields = {name: name for name in ("kind", "user_id", "appeal")}
    order_fields = {name: name for name in ("id", "created_at", "ends_at")}
    user_id = IntegerFilter(help_text="Id of the user.")
    kind = filters.ChoiceFilter(choices=Sanction.Kind.choices, help_text="What the user may not do.")
    appeal = filters.ChoiceFilter(choices=Sanction.AppealState.choices[1:], help_text="State of the user's appeal.")

    class Meta:
        model = Sanction
        fields: list[str] = []
