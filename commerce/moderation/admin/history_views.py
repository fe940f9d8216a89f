"""View of the histories of an author, a reporter, a shop and a product."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from commerce.catalog.models import Product
from commerce.moderation.labels import ACTIONS, KINDS
from commerce.moderation.models import Appeal, Reporter
from commerce.moderation.queue.history import HISTORY_PAGES, EventKind, HistoryCursor, HistoryEvent
from commerce.shops.models import Shop
from shared.accounts.models import User

MAX_SHOWN_HIDDEN = 10
Text = str | Promise
SUBJECTS: Mapping[str, tuple[type[Model], Text]] = {
    "author": (User, _("History of an author")),
    "reporter": (User, _("History of a reporter")),
    "shop": (Shop, _("History of a shop")),
    "product": (Product, _("History of a product")),
}
APPEAL_STATUSES: Mapping[str, Text] = {
    Appeal.Status.OPEN: _("Appealed: open"),
    Appeal.Status.KEPT: _("Appealed: it stayed down"),
    Appeal.Status.OVERTURNED: _("Appealed: it was brought back"),
}


@dataclass(frozen=True)
class HistoryLine:
    """An event with its labels."""

    event: HistoryEvent

    @property
    def row(self) -> Any:
        return self.event.row

    @property
    def what(self) -> Text:
        if self.event.kind == EventKind.REPORT:
            return _("Reported")
        if self.event.kind == EventKind.DECISION:
            return ACTIONS[self.row.action]
        if self.event.kind == EventKind.APPEAL:
            return APPEAL_STATUSES[self.row.status]
        return str(self.row.get_kind_display())

    @property
    def who(self) -> Text:
        """Return the name of the user who did it; decisions of rules have none."""
        if self.event.kind == EventKind.REPORT:
            return str(self.row.user.name)
        if self.event.kind == EventKind.APPEAL:
            return str(self.row.author.name)
        return self.row.moderator.name if self.row.moderator else _("automatically")

    @property
    def report_reason(self) -> str:
        return str(self.row.reason or "") if self.event.kind == EventKind.REPORT else ""

    @property
    def reason(self) -> str:
        """Return the text that was sent to the author, or by the author or reporter."""
        if self.event.kind in (EventKind.REPORT, EventKind.APPEAL):
            return str(self.row.message)
        return str(self.row.reason)

    @property
    def note(self) -> str:
        return str(getattr(self.row, "note", ""))

    @property
    def is_undone(self) -> bool:
        return bool(getattr(self.row, "undone_at", None) or getattr(self.row, "lifted_at", None))

    @property
    def item(self) -> str:
        return f"{KINDS[self.event.case.model_type]} {self.event.case.model_id}" if self.event.case else ""


def show_history(request: HttpRequest, subject: str, subject_id: int) -> HttpResponse:
    """Show a page of a history; `before` in the query is where it begins, and an invalid one is the first page."""
    if subject not in SUBJECTS:
        raise Http404
    model, title = SUBJECTS[subject]
    found: Any = model._default_manager.filter(pk=subject_id).first()
    if found is None:
        raise Http404
    page = HISTORY_PAGES[subject](subject_id, before=HistoryCursor.parse(request.GET.get("before", "")))
    context = admin.site.each_context(request) | {
        "title": title,
        "subject": subject,
        "found": found,
        "is_user": model is User,
        "page": page,
        "lines": [HistoryLine(event) for event in page.events],
        "hidden": [(f"{KINDS[case.model_type]} {case.model_id}", case) for case in page.hidden[:MAX_SHOWN_HIDDEN]],
        "is_first": "before" not in request.GET,
        "reporter": _reporter(subject_id) if subject == "reporter" else None,
    }
    return render(request, "moderation/history.html", context)


def _reporter(user_id: int) -> Reporter:
    return Reporter.objects.filter(pk=user_id).first() or Reporter(pk=user_id)
