"""Admin classes of cases and decisions, which the pages of the queue make, and of what moderators choose from."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_POST
from unfold.admin import ModelAdmin

from commerce.moderation.admin import (
    decision_views,
    history_views,
    queue_views,
    second_look_views,
    statistics_views,
    transparency_views,
)
from commerce.moderation.labels import ACTIONS, KINDS
from commerce.moderation.models import Case, Decision, DecisionTemplate, HoldingRule, ReportReason
from commerce.moderation.queue.holding import MAX_EXAMPLES, preview_rule
from shared.api.admin.base import IndexedEmptyFieldListFilter, LargeTableAdmin, NoDeleteMixin, ReadOnlyAdminMixin

MAX_TEXT_LENGTH = 100
View = Callable[..., HttpResponseBase]


def moderators_only(view: View) -> View:
    """Return the view for moderators: others who are signed in get 403, anybody else the login page."""
    guarded = admin.site.admin_view(view)

    def answer(request: HttpRequest, **path_parts: Any) -> HttpResponseBase:
        if request.user.is_authenticated and not admin.site.has_permission(request):
            raise PermissionDenied
        return guarded(request, **path_parts)

    return answer


@admin.register(Case)
class CaseAdmin(ReadOnlyAdminMixin, ModelAdmin):
    def get_urls(self) -> list[URLPattern]:
        """Return the pages of the queue, which replace those of Django."""
        pages: list[tuple[str, str, View]] = [
            ("", "case_changelist", queue_views.show_queue),
            ("statistics/", "statistics", statistics_views.show_statistics),
            ("transparency/", "transparency", transparency_views.show_transparency),
            ("transparency/statements.csv", "statements", transparency_views.download_statements),
            ("history/<str:subject>/<int:subject_id>/", "history", history_views.show_history),
            ("second-look/", "second_look", second_look_views.show_second_look),
            ("<int:case_id>/change/", "case_change", queue_views.show_item),
        ]
        actions: list[tuple[str, str, View]] = [
            ("<int:case_id>/decide/", "decide", decision_views.decide),
            ("<int:case_id>/claim/", "claim", decision_views.claim),
            ("<int:case_id>/release/", "release", decision_views.release),
            ("undo/<int:decision_id>/", "undo", decision_views.undo),
            ("second-look/<int:look_id>/", "decide_second_look", second_look_views.decide_blindly),
            ("many/", "preview", decision_views.preview_many),
            ("many/decide/", "decide_many", decision_views.decide_many),
            ("many/undo/", "undo_many", decision_views.undo_many),
        ]
        return [
            *(_route(route, name, require_GET(view)) for route, name, view in pages),
            *(_route(route, name, require_POST(view)) for route, name, view in actions),
        ]


def _route(route: str, name: str, view: View) -> URLPattern:
    return path(route, moderators_only(view), name=f"commerce_moderation_{name}")


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdminMixin, LargeTableAdmin):
    """List of decisions with links to their cases, where they can be undone or restored."""

    list_display = ["created_at", "what", "item", "wrote", "moderator", "note", "reports_count", "undone_at"]
    list_display_links = None
    list_filter = ["action", ["undone_at", IndexedEmptyFieldListFilter]]
    list_select_related = ["case", "moderator"]
    search_fields = ["moderator__email", "author__email"]
    search_help_text: Any = _("The beginning of the e-mail of a moderator or an author, or an id")

    @admin.display(description=_("decision"))
    def what(self, decision: Decision) -> str:
        return str(ACTIONS[decision.action])

    @admin.display(description=_("item"))
    def item(self, decision: Decision) -> str:
        url = reverse("admin:commerce_moderation_case_change", args=[decision.case_id])
        kind = KINDS[decision.case.model_type]
        return format_html('<a class="mod-link" href="{}">{} {}</a>', url, kind, decision.case.model_id)

    @admin.display(description=_("text"))
    def wrote(self, decision: Decision) -> str:
        return Truncator(decision.text).chars(MAX_TEXT_LENGTH)


@admin.register(ReportReason)
class ReportReasonAdmin(NoDeleteMixin, ModelAdmin):
    """Reasons of reports. A reason that is no longer wanted is switched off, since reports refer to it."""

    list_display = ["shown_name", "code", "severity", "due_hours", "position", "is_active"]
    list_editable = ["position", "is_active"]

    @admin.display(description=_("name"), ordering="name")
    def shown_name(self, reason: ReportReason) -> str:
        return str(reason)


@admin.register(DecisionTemplate)
class DecisionTemplateAdmin(ModelAdmin):
    """Texts that moderators choose from."""

    list_display = ["name", "reason", "language", "is_active"]
    list_filter = ["language", "is_active"]
    list_select_related = ["reason"]


@admin.register(HoldingRule)
class HoldingRuleAdmin(ModelAdmin):
    """Rules that hold content before it is public. Moderators see them, super admins change them."""

    list_display = ["name", "kind", "is_active"]
    sortable_by = ()
    autocomplete_fields = ["shops_off"]
    change_form_outer_after_template = "moderation/_preview_button.html"

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """Show the preview of the form's rule, which is not saved, if that button was pressed."""
        if request.method == "POST" and "_preview" in request.POST and self.has_add_permission(request):
            form = self.get_form(request)(request.POST)
            if form.is_valid():
                return self._show_preview(request, form)
        return super().changeform_view(request, object_id, form_url, extra_context)

    def _show_preview(self, request: HttpRequest, form: Any) -> HttpResponse:
        off = [shop.pk for shop in form.cleaned_data["shops_off"]]
        rule = form.save(commit=False)
        preview = preview_rule(rule, shops_off=off, now=timezone.now())
        context = admin.site.each_context(request) | {
            "title": _("What the rule would have held"),
            "rule": rule,
            "preview": preview,
            "max_examples": MAX_EXAMPLES,
            "lines": [(KINDS[type(each).__name__], each) for each in preview.examples],
        }
        return render(request, "moderation/holding_preview.html", context)
