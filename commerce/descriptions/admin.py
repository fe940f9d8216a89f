"""Drafts in the admin: read, edited, used and discarded, one or many. They are written on their product's page, or by
jobs for many products."""

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import Truncator
from django.utils.translation import gettext as now_translated
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import action

from commerce.descriptions import admin_jobs, admin_writer, drafts
from commerce.descriptions.admin_words import JOB_STATES, refusals
from commerce.descriptions.drafts import Outcome
from commerce.descriptions.models import DescriptionDraft, DescriptionJob
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.api.fast_admin import FastAdmin

SHOWN_CHARACTERS = 120


@admin.register(DescriptionDraft)
class DescriptionDraftAdmin(FastAdmin):
    list_display = ["created_at", "product", "beginning", "state", "language", "tone", "author"]
    list_select_related = ["product", "author", "decided_by"]
    list_filter = ["state", ["product", AutocompleteSelectFilter]]
    search_fields = ["product__name", "product__slug"]
    search_help_text: Any = _("The beginning of a product's name, or a draft's id")
    fieldsets = [
        (None, {"fields": ["product", "state", "text", "description_now"]}),
        (_("As it was written"), {"fields": ["written", "model", "author", "created_at"]}),
        (_("What was asked for"), {"fields": ["tone", "language", "max_words", "shown_keywords"]}),
        (_("What became of it"), {"fields": ["edited_at", "decided_by", "decided_at"]}),
    ]
    actions = ["use_chosen", "discard_chosen"]
    actions_submit_line = ["save_and_use", "save_and_discard"]

    def get_urls(self) -> list[URLPattern]:
        deeds = [
            path("write/<id:product_id>/", admin_writer.write, name="commerce_descriptions_write"),
            # Not `id`, which is never 0: the page's script puts the draft in the place of it.
            path("<int:draft_id>/use/", admin_writer.use, name="commerce_descriptions_use"),
            path("<int:draft_id>/discard/", admin_writer.discard, name="commerce_descriptions_discard"),
        ]
        return [*deeds, *super().get_urls()]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Also those of one job, to which its page leads."""
        return lookup == "item__job__id__exact" or super().lookup_allowed(lookup, value, request)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        names = [field.name for field in DescriptionDraft._meta.fields if field.name not in ("id", "based_on")]
        return [
            "shown_keywords",
            "description_now",
            *(name for name in names if not (name == "text" and obj and obj.is_open)),
        ]

    def get_actions_submit_line(self, request: HttpRequest, object_id: Any) -> list[Any]:
        is_open = DescriptionDraft.objects.open().filter(pk=object_id).exists()
        return super().get_actions_submit_line(request, object_id) if is_open else []

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """What is not used is discarded, and stays the product's history."""
        return False

    @admin.display(description=_("text"))
    def beginning(self, draft: DescriptionDraft) -> str:
        return Truncator(draft.text).chars(SHOWN_CHARACTERS)

    @admin.display(description=_("Keywords"))
    def shown_keywords(self, draft: DescriptionDraft) -> str:
        return ", ".join(draft.keywords)

    @admin.display(description=_("The product's description now"))
    def description_now(self, draft: DescriptionDraft) -> str:
        """What using the draft replaces; where somebody has written it since, it says so."""
        now = draft.product.description or "-"
        if not (draft.is_open and draft.is_outdated):
            return now
        return f"{now_translated(drafts.CHANGED)}\n\n{now}"

    def save_model(self, request: HttpRequest, obj: DescriptionDraft, form: Any, change: bool) -> None:
        """Through the services alone. What they refuse is told by `response_change`."""
        try:
            if "text" in form.changed_data:
                text = obj.text.replace("\r\n", "\n")
                drafts.edit_draft(draft_id=obj.pk, actor=_user(request), text=text, now=timezone.now())
            for deed in self.get_actions_submit_line(request, obj.pk):
                if deed.action_name in request.POST:
                    deed.method(request, obj)
        except ApiError as error:
            request.draft_refusal = error.problem.message  # type: ignore[attr-defined]

    def response_change(self, request: HttpRequest, obj: DescriptionDraft) -> HttpResponse:
        if refusal := getattr(request, "draft_refusal", ""):
            self.message_user(request, now_translated(refusal), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
        answer: HttpResponse = super().response_change(request, obj)
        return answer

    @action(description=_("Use as the description"))  # type: ignore[untyped-decorator]
    def save_and_use(self, request: HttpRequest, obj: DescriptionDraft) -> None:
        drafts.accept_draft(draft_id=obj.pk, actor=_user(request), now=timezone.now())

    @action(description=_("Discard"))  # type: ignore[untyped-decorator]
    def save_and_discard(self, request: HttpRequest, obj: DescriptionDraft) -> None:
        drafts.discard_draft(draft_id=obj.pk, actor=_user(request), now=timezone.now())

    @admin.action(description=_("Use as the description of its product"))
    def use_chosen(self, request: HttpRequest, chosen: "QuerySet[DescriptionDraft]") -> None:
        self._tell(request, drafts.accept_drafts(draft_ids=_ids(chosen), actor=_user(request), now=timezone.now()))

    @admin.action(description=_("Discard"))
    def discard_chosen(self, request: HttpRequest, chosen: "QuerySet[DescriptionDraft]") -> None:
        self._tell(request, drafts.discard_drafts(draft_ids=_ids(chosen), actor=_user(request), now=timezone.now()))

    def _tell(self, request: HttpRequest, outcomes: Sequence[Outcome]) -> None:
        if done := sum(not outcome.refusal for outcome in outcomes):
            self.message_user(request, now_translated("Drafts decided about: %(count)d") % {"count": done})
        for words in refusals(outcomes):
            self.message_user(request, words, messages.WARNING)


@admin.register(DescriptionJob)
class DescriptionJobAdmin(FastAdmin):
    """Begun by an action of the products' list; nothing of it is changed by hand."""

    list_display = ["created_at", "author", "shown_state", "progress", "ended_at"]
    list_select_related = ["author"]
    list_filter = ["state"]

    def get_urls(self) -> list[URLPattern]:
        """The list is Django's, the other pages are our own."""
        pages: list[tuple[str, str, Callable[..., HttpResponse]]] = [
            ("new/", "new_job", require_http_methods(["GET", "POST"])(admin_jobs.new_job)),
            ("<int:job_id>/change/", "descriptionjob_change", require_GET(admin_jobs.show_job)),
            ("<int:job_id>/progress/", "job_progress", require_GET(admin_jobs.progress)),
            ("<int:job_id>/cancel/", "job_cancel", require_POST(admin_jobs.cancel)),
        ]
        return [
            *(
                path(route, admin.site.admin_view(view), name=f"commerce_descriptions_{name}")
                for route, name, view in pages
            ),
            path(
                "", admin.site.admin_view(self.changelist_view), name="commerce_descriptions_descriptionjob_changelist"
            ),
        ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description=_("state"))
    def shown_state(self, job: DescriptionJob) -> str:
        return str(JOB_STATES[job.state])

    @admin.display(description=_("progress"))
    def progress(self, job: DescriptionJob) -> str:
        return format_html(
            '<progress max="{}" value="{}"></progress> {}/{}',
            job.total,
            job.progress,
            job.progress,
            job.total,
        )


def _ids(chosen: "QuerySet[DescriptionDraft]") -> list[int]:
    return list(chosen.order_by().values_list("pk", flat=True))


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 the admin lets nobody else in
    return request.user
