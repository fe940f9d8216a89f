"""View of the histories of an author, a reporter, a shop and a product."""

from collections.abc import Mapping
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
        "lines": [_line(event) for event in page.events],
        "hidden": [(f"{KINDS[case.model_type]} {case.model_id}", case) for case in page.hidden[:MAX_SHOWN_HIDDEN]],
        "is_first": "before" not in request.GET,
        "reporter": _reporter(subject_id) if subject == "reporter" else None,
    }
    return render(request, "moderation/history.html", context)


def _reporter(user_id: int) -> Reporter:
    return Reporter.objects.filter(pk=user_id).first() or Reporter(pk=user_id)


def _line(event: HistoryEvent) -> dict[str, Any]:
    """Return an event with its labels. `reason` is what was sent to the author, or by the author or reporter."""
    row, case = event.row, event.case
    what: Text
    match event.kind:
        case EventKind.REPORT:
            what, who, reason = _("Reported"), row.user, row.message
        case EventKind.DECISION:
            what, who, reason = ACTIONS[row.action], row.moderator, row.reason
        case EventKind.APPEAL:
            what, who, reason = APPEAL_STATUSES[row.status], row.author, row.message
        case EventKind.SANCTION:
            what, who, reason = row.get_kind_display(), row.moderator, row.reason
    return {
        "event": event,
        "row": row,
        "what": what,
        "who": who.name if who else _("automatically"),  # decisions of rules have no moderator
        "report_reason": row.reason if event.kind == EventKind.REPORT else None,
        "reason": reason,
        "note": getattr(row, "note", ""),
        "is_undone": getattr(row, "undone_at", None) or getattr(row, "lifted_at", None),
        "item": f"{KINDS[case.model_type]} {case.model_id}" if case else "",
    }
