"""The read-only admin of the usage ledger."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from inference.usage.models import DailyUsage


@admin.register(DailyUsage)
class DailyUsageAdmin(ModelAdmin):
    """The usage ledger, with the totals of the filtered rows."""

    list_display = ["day", "user", "key", "model_id", "requests", "prompt", "cached", "completion", "total"]
    list_display_links = None
    list_select_related = ["user", "api_key"]
    list_filter = ["model_id"]
    list_before_template = "inference_usage/totals.html"
    date_hierarchy = "day"
    search_fields = ["user__email", "api_key__name", "api_key__key_id", "model_id"]
    search_help_text = "User e-mail, API key name or prefix, or model"
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Add the totals of all pages of the filtered rows to the context."""
        page = super().changelist_view(request, extra_context)
        if changelist := (getattr(page, "context_data", None) or {}).get("cl"):
            sums = changelist.queryset.order_by().sums()
            page.context_data["sums"] = {name: f"{count:,}" for name, count in sums.items()}
        return page

    @admin.display(description="API key", ordering="api_key")
    def key(self, row: DailyUsage) -> str:
        return str(row.api_key) if row.api_key else "none (session or batch)"

    @admin.display(description="Prompt tokens", ordering="prompt_tokens")
    def prompt(self, row: DailyUsage) -> str:
        return f"{row.prompt_tokens:,}"

    @admin.display(description="Cached tokens", ordering="cached_tokens")
    def cached(self, row: DailyUsage) -> str:
        return f"{row.cached_tokens:,}"

    @admin.display(description="Completion tokens", ordering="completion_tokens")
    def completion(self, row: DailyUsage) -> str:
        return f"{row.completion_tokens:,}"

    @admin.display(description="Total tokens")
    def total(self, row: DailyUsage) -> str:
        return f"{row.total_tokens:,}"
