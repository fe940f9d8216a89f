"""Views of the queue: a list beside the selected item; with `part` in the query a fragment for the script."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _

from commerce.moderation.admin.forms import BULK_ACTIONS, QueueForm
from commerce.moderation.admin.presenters import ItemDetails, QueueRow
from commerce.moderation.models import Case, Decision, DecisionTemplate, ReportReason
from commerce.moderation.queue.listing import MAX_COUNTED_CASES, count_cases, filter_queue, queue_page, read_case_file
from commerce.moderation.queue.search import search
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.permissions import signed_in_user
from shared.api.query_params import DEFAULT_LANGUAGE, parse_integer

PAGE_SIZE = 25
MAX_OFFERED_SHOPS = 100
QUERY_NAMES = ("order", "kind", "age", "only", "reason", "severity", "shop", "language", "search")


@dataclass(frozen=True, kw_only=True)
class QueuePage:
    """A page of the queue. `is_more` says whether another follows."""

    rows: Sequence[QueueRow]
    start: int
    is_more: bool


def show_queue(request: HttpRequest) -> HttpResponse:
    """Show the list with the selected item, or with `part=rows` the next rows."""
    form = QueueForm(request.GET)
    form.is_valid()
    now = timezone.now()
    cases = search(filter_queue(form.filters(), order=form.order_name(), now=now), form.cleaned_data.get("search", ""))
    page = _page(cases, _start(request.GET), signed_in_user(request), now)
    if request.GET.get("part") == "rows":
        return render(request, "moderation/_rows.html", {"page": page, "now": now, "query": list_query(request.GET)})
    length = count_cases(cases) if page.is_more or (page.start and not page.rows) else page.start + len(page.rows)
    templates = read_templates()
    context = admin.site.each_context(request) | {
        "title": _("Moderation queue"),
        "form": form,
        "page": page,
        "length": length,
        "is_counted": length < MAX_COUNTED_CASES,
        "previous": max(page.start - PAGE_SIZE, 0),
        "following": page.start + PAGE_SIZE,
        "query": list_query(request.GET),
        "is_filtered": any(request.GET.get(name) for name in QUERY_NAMES if name != "order"),
        "shops": Shop.objects.order_by("name").values_list("slug", "name")[:MAX_OFFERED_SHOPS],
        "many": BULK_ACTIONS.items(),
        "all_templates": templates,
        "done": _undoable_decision(request, now),
        "now": now,
    }
    return render(request, "moderation/queue.html", context | _selected_item(request, page, templates, now))


def show_item(request: HttpRequest, case_id: int) -> HttpResponse:
    """Show the page of one case, waiting or decided."""
    now = timezone.now()
    item = get_item(case_id, signed_in_user(request), now)
    context = {"now": now, **_item_context(item, read_templates())}
    if request.GET.get("part"):
        return render(request, "moderation/_item.html", context)
    title = {"title": _("%(kind)s %(id)d") % {"kind": item.row.kind, "id": item.row.case.model_id}}
    return render(request, "moderation/item.html", admin.site.each_context(request) | title | context)


def get_item(case_id: int, viewer: User, now: datetime) -> ItemDetails:
    """Return the details of one case. Raises Http404."""
    for found in queue_page(Case.objects.filter(pk=case_id), now=now):
        return _item(QueueRow(found, viewer), now)
    raise Http404


def read_templates() -> list[DecisionTemplate]:
    return list(DecisionTemplate.objects.filter(is_active=True))


def offered_templates(templates: Sequence[DecisionTemplate], case: Case) -> list[DecisionTemplate]:
    """Return the templates for a case: those for its reason or for all, in its language and for its reason first."""
    offered = [template for template in templates if template.reason_id in (None, case.reason_id)]
    return sorted(offered, key=lambda each: (each.language != case.language, each.reason_id is None, each.name))


def list_query(data: QueryDict) -> str:
    """Return the query string of the same list: its filters and order, and nothing else."""
    query = QueryDict(mutable=True)
    for name in QUERY_NAMES:
        if value := data.get(name):
            query[name] = value
    return query.urlencode()


def _page(cases: Any, start: int, viewer: User, now: datetime) -> QueuePage:
    items = queue_page(cases[start : start + PAGE_SIZE + 1], now=now)
    return QueuePage(
        rows=[QueueRow(item, viewer) for item in items[:PAGE_SIZE]], start=start, is_more=len(items) > PAGE_SIZE
    )


def _start(data: QueryDict) -> int:
    return min(max(parse_integer(data.get("start", "")) or 0, 0), MAX_COUNTED_CASES)


def _selected_item(
    request: HttpRequest, page: QueuePage, templates: Sequence[DecisionTemplate], now: datetime
) -> dict[str, Any]:
    """Return the context of the item beside the list: the requested one, else the first, and the id of the next."""
    requested = parse_integer(request.GET.get("item", ""))
    ids = [row.case.pk for row in page.rows]
    if requested is None and not ids:
        return {"item": None}
    if requested is None or requested in ids:
        index = ids.index(requested) if requested else 0
        item = _item(page.rows[index], now)
    else:
        index, item = -1, get_item(requested, signed_in_user(request), now)
    following = ids[index + 1] if index + 1 < len(ids) else None
    return {"is_asked": requested is not None, "following_id": following, **_item_context(item, templates)}


def _item_context(item: ItemDetails, templates: Sequence[DecisionTemplate]) -> dict[str, Any]:
    advice = item.file.advice
    offered = offered_templates(templates, item.row.case)
    reason = advice.suggestion.reason if advice.suggestion else None
    suggested = _template_for(reason, templates, item.row.case) if reason else None
    if suggested and suggested not in offered:
        offered = [*offered, suggested]
    return {
        "item": item,
        "row": item.row,
        "templates": offered,
        "suggestion": advice.suggestion,
        "suggested_template": suggested,
        "similar": advice.similar,
        "alike": advice.alike,
    }


def _template_for(reason: ReportReason, templates: Sequence[DecisionTemplate], case: Case) -> DecisionTemplate | None:
    """Return the template for a suggested reason in the language of the case, or else in the default language."""
    languages = (case.language, DEFAULT_LANGUAGE)
    found = [each for each in templates if each.reason_id == reason.pk and each.language in languages]
    return min(found, key=lambda each: (languages.index(each.language), each.name), default=None)


def _item(row: QueueRow, now: datetime) -> ItemDetails:
    return ItemDetails(row=row, file=read_case_file(row.item, now=now), now=now)


def _undoable_decision(request: HttpRequest, now: datetime) -> Decision | None:
    """Return the decision that this moderator has just made, while it can be undone."""
    decision_id = parse_integer(request.GET.get("done", ""))
    if decision_id is None:
        return None
    decision = Decision.objects.filter(pk=decision_id, moderator=signed_in_user(request)).first()
    return decision if decision and decision.can_be_undone(now) else None
