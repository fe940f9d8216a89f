"""Admin of drafts: edit, use and discard them, one or many."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern
from django.utils import timezone
from django.utils.text import Truncator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import action

from commerce.descriptions import drafts
from commerce.descriptions.admin.draft_views import writer_urls
from commerce.descriptions.admin.labels import describe_errors
from commerce.descriptions.drafts import DraftDecision
from commerce.descriptions.models import DescriptionDraft
from shared.accounts.permissions import signed_in_user
from shared.api.admin.base import LargeTableAdmin, NoDeleteMixin
from shared.api.errors import ApiError

MAX_EXCERPT_LENGTH = 120


@admin.register(DescriptionDraft)
class DescriptionDraftAdmin(NoDeleteMixin, LargeTableAdmin):
    """Drafts. One that is not used is discarded, and stays in the product's history."""

    list_display = ["created_at", "product", "excerpt", "state", "language", "tone", "author"]
    list_select_related = ["product", "author", "decided_by"]
    list_filter = ["state", ["product", AutocompleteSelectFilter]]
    search_fields = ["product__name", "product__slug"]
    search_help_text: Any = _("Search by the beginning of a product's name, or by a draft's id")
    fieldsets = [
        (None, {"fields": ["product", "state", "text", "current_description"]}),
        (_("Generated text"), {"fields": ["written", "model", "author", "created_at"]}),
        (_("Request"), {"fields": ["tone", "language", "max_words", "keyword_list"]}),
        (_("Decision"), {"fields": ["edited_at", "decided_by", "decided_at"]}),
    ]
    actions = ["use_selected", "discard_selected"]
    actions_submit_line = ["save_and_use", "save_and_discard"]

    def get_urls(self) -> list[URLPattern]:
        writer = writer_urls(prefix="", name="commerce_descriptions", may_use=lambda user: user.is_staff)
        return [*writer, *super().get_urls()]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow the filter by job, which the job's page links to."""
        return lookup == "item__job__id__exact" or super().lookup_allowed(lookup, value, request)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        names = [field.name for field in DescriptionDraft._meta.fields if field.name not in ("id", "based_on")]
        return [
            "keyword_list",
            "current_description",
            *(name for name in names if not (name == "text" and obj and obj.is_open)),
        ]

    def get_actions_submit_line(self, request: HttpRequest, object_id: Any) -> list[Any]:
        is_open = DescriptionDraft.objects.open().filter(pk=object_id).exists()
        return super().get_actions_submit_line(request, object_id) if is_open else []

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.display(description=_("text"))
    def excerpt(self, draft: DescriptionDraft) -> str:
        return Truncator(draft.text).chars(MAX_EXCERPT_LENGTH)

    @admin.display(description=_("Keywords"))
    def keyword_list(self, draft: DescriptionDraft) -> str:
        return ", ".join(draft.keywords)

    @admin.display(description=_("Current description"))
    def current_description(self, draft: DescriptionDraft) -> str:
        """Return the description that using the draft replaces, with a warning if it is newer than the draft."""
        description = draft.product.description or "-"
        if not (draft.is_open and draft.is_outdated):
            return description
        return f"{gettext(drafts.DESCRIPTION_CHANGED)}\n\n{description}"

    def save_model(self, request: HttpRequest, obj: DescriptionDraft, form: Any, change: bool) -> None:
        """Save through the services. `response_change` reports their errors."""
        try:
            if "text" in form.changed_data:
                text = obj.text.replace("\r\n", "\n")
                drafts.edit_draft(draft_id=obj.pk, actor=signed_in_user(request), text=text, now=timezone.now())
            for submit_action in self.get_actions_submit_line(request, obj.pk):
                if submit_action.action_name in request.POST:
                    submit_action.method(request, obj)
        except ApiError as error:
            request.draft_error = error.problem.message  # type: ignore[attr-defined]

    def response_change(self, request: HttpRequest, obj: DescriptionDraft) -> HttpResponse:
        if error := getattr(request, "draft_error", ""):
            self.message_user(request, gettext(error), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
        response: HttpResponse = super().response_change(request, obj)
        return response

    @action(description=_("Use as the description"))  # type: ignore[untyped-decorator]
    def save_and_use(self, request: HttpRequest, obj: DescriptionDraft) -> None:
        drafts.accept_draft(draft_id=obj.pk, actor=signed_in_user(request), now=timezone.now())

    @action(description=_("Discard"))  # type: ignore[untyped-decorator]
    def save_and_discard(self, request: HttpRequest, obj: DescriptionDraft) -> None:
        drafts.discard_draft(draft_id=obj.pk, actor=signed_in_user(request), now=timezone.now())

    @admin.action(description=_("Use as the product's description"))
    def use_selected(self, request: HttpRequest, queryset: "QuerySet[DescriptionDraft]") -> None:
        decisions = drafts.accept_drafts(draft_ids=_ids(queryset), actor=signed_in_user(request), now=timezone.now())
        self._report(request, decisions)

    @admin.action(description=_("Discard"))
    def discard_selected(self, request: HttpRequest, queryset: "QuerySet[DescriptionDraft]") -> None:
        decisions = drafts.discard_drafts(draft_ids=_ids(queryset), actor=signed_in_user(request), now=timezone.now())
        self._report(request, decisions)

    def _report(self, request: HttpRequest, decisions: Sequence[DraftDecision]) -> None:
        if count := sum(not decision.error for decision in decisions):
            self.message_user(request, gettext("Updated drafts: %(count)d") % {"count": count})
        for message in describe_errors(decisions):
            self.message_user(request, message, messages.WARNING)


def _ids(queryset: "QuerySet[DescriptionDraft]") -> list[int]:
    return list(queryset.order_by().values_list("pk", flat=True))
