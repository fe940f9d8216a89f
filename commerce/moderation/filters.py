"""What the lists of reports, notices and appeals may be asked."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from commerce.moderation.models import AbuseReport, Appeal, Notice
from commerce.moderation.reportable_content import ContentNotFound, kind_of
from shared.api.lists.filters import IntegerFilter, ListFilterSet


class KindFilter(filters.CharFilter):  # type: ignore[misc]
    """`model_type=Review`, in either spelling; of what is no kind there are no reports."""

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return qs
        try:
            return qs.filter(model_type=kind_of(value))
        except ContentNotFound:
            return qs.none()


class OpenUnlessSaid(filters.ChoiceFilter):  # type: ignore[misc]
    """`status=accepted`; the open ones when none is named."""

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        found: QuerySet[Any] = super().filter(qs, value or AbuseReport.Status.OPEN)
        return found


class OwnReportFilters(ListFilterSet):
    search_fields = {name: name for name in ("model_type", "model_id", "status", "message")}
    order_fields = {name: name for name in ("id", "created_at", "updated_at")}
    model_type = KindFilter()
    model_id = IntegerFilter()
    status = filters.ChoiceFilter(choices=AbuseReport.Status.choices)

    class Meta:
        model = AbuseReport
        fields: list[str] = []


class ReportFilters(OwnReportFilters):
    search_fields = {name: name for name in ("model_type", "model_id", "status", "message", "user_id")}
    relations = {"user": "user"}
    status = OpenUnlessSaid(choices=AbuseReport.Status.choices, help_text="Default: open.")


class NoticeFilters(ListFilterSet):
    search_fields = {"kind": "kind"}
    order_fields = {"id": "id", "created_at": "due_at"}

    class Meta:
        model = Notice
        fields: list[str] = []


class AppealFilters(ListFilterSet):
    search_fields = {"status": "status"}
    order_fields = {name: name for name in ("id", "created_at", "decided_at")}

    class Meta:
        model = Appeal
        fields: list[str] = []
