"""Django admin of the audit log, which super admins read and export but never edit."""

from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.functional import cached_property
from unfold.admin import ModelAdmin

from shared.api.query_params import parse_integer
from shared.audit.export import CONTENT_TYPES, export_entries
from shared.audit.models import AuditEntry
from shared.request_threads import response_chunks

MAX_COUNT = 10_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Paginator that ends after MAX_COUNT entries, because counting all of them would read the whole log."""

    @cached_property
    def count(self) -> int:
        return int(self.object_list.order_by()[:MAX_COUNT].count())  # type: ignore[attr-defined]


@admin.register(AuditEntry)
class AuditEntryAdmin(ModelAdmin):
    paginator = BoundedPaginator
    show_full_result_count = False
    list_per_page = 50
    list_display = ["at", "actor", "action", "target_type", "target_id"]
    list_select_related = ["actor"]
    search_fields = ["action"]  # see get_search_results
    search_help_text = "Search by target id, by the full e-mail address of the actor, or by action"
    sortable_by = ()
    actions = ["export_csv", "export_json_lines"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Return False: the list is searched and has no filters."""
        return False

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[AuditEntry]", search_term: str
    ) -> "tuple[QuerySet[AuditEntry], bool]":
        """Search by indexed columns only, because the log grows without end."""
        term = search_term.strip().replace("\x00", "")
        if (number := parse_integer(term)) is not None:
            return queryset.filter(target_id=number), False
        if "@" in term:
            return queryset.filter(actor__in=get_user_model().objects.filter(email=term.lower())), False
        return queryset.filter(action=term) if term else queryset, False

    @admin.action(description="Export as CSV")
    def export_csv(self, request: HttpRequest, entries: "QuerySet[AuditEntry]") -> StreamingHttpResponse:
        return _download(request, entries, "csv")

    @admin.action(description="Export as JSON lines")
    def export_json_lines(self, request: HttpRequest, entries: "QuerySet[AuditEntry]") -> StreamingHttpResponse:
        return _download(request, entries, "jsonl")


def _download(request: HttpRequest, entries: "QuerySet[AuditEntry]", form: str) -> StreamingHttpResponse:
    chunks = response_chunks(request, export_entries(entries, form))
    headers = {"Content-Disposition": f'attachment; filename="audit.{form}"'}
    return StreamingHttpResponse(chunks, content_type=CONTENT_TYPES[form], headers=headers)
