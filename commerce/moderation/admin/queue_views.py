"""The queue's page: a list on one side, and on the other the item that is looked at. With `part` in the query it
answers a piece of that page alone, which is what the page's own script asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _

from commerce.moderation.admin.forms import MANY, QueueForm
from commerce.moderation.admin.presenters import DecisionLine, Item, Row
from commerce.moderation.models import Case, Decision
from commerce.moderation.queue.listing import MOST_COUNTED, file_of, queue, queue_length, queue_page
from commerce.moderation.queue.search import search
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.query_params import parse_integer

PAGE_SIZE = 25
OFFERED_SHOPS = 100
QUERY_NAMES = ("order", "kind", "age", "only", "shop", "language", "search")


@dataclass(frozen=True, kw_only=True)
class Page:
    """A slice of the queue. `is_more`: another follows."""

    rows: Sequence[Row]
    start: int
    is_more: bool


def show_queue(request: HttpRequest) -> HttpResponse:
    form = QueueForm(request.GET)
    form.is_valid()
    now = timezone.now()
    cases = search(queue(form.filters(), order=form.order_name(), now=now), form.cleaned_data.get("search", ""))
    page = _page(cases, _start(request.GET), user_of(request), now)
    if request.GET.get("part") == "rows":
        return render(request, "moderation/_rows.html", {"page": page, "now": now, "query": query_of(request.GET)})
    length = queue_length(cases) if page.is_more or (page.start and not page.rows) else page.start + len(page.rows)
    context = admin.site.each_context(request) | {
        "title": _("Moderation queue"),
        "form": form,
        "page": page,
        "length": length,
        "is_counted": length < MOST_COUNTED,
        "previous": max(page.start - PAGE_SIZE, 0),
        "following": page.start + PAGE_SIZE,
        "query": query_of(request.GET),
        "is_filtered": any(request.GET.get(name) for name in QUERY_NAMES if name != "order"),
        "shops": Shop.objects.order_by("name").values_list("slug", "name")[:OFFERED_SHOPS],
        "many": MANY.items(),
        "done": _done(request, now),
        "now": now,
    }
    return render(request, "moderation/queue.html", context | _chosen(request, page, now))


def show_item(request: HttpRequest, case_id: int) -> HttpResponse:
    """One item, waiting or decided."""
    now = timezone.now()
    item = read_item(case_id, user_of(request), now)
    context = {"item": item, "row": item.row, "now": now}
    if request.GET.get("part"):
        return render(request, "moderation/_item.html", context)
    title = {"title": _("%(kind)s %(id)d") % {"kind": item.row.kind, "id": item.row.case.model_id}}
    return render(request, "moderation/item.html", admin.site.each_context(request) | title | context)


def read_item(case_id: int, viewer: User, now: datetime) -> Item:
    """Raises Http404."""
    for found in queue_page(Case.objects.filter(pk=case_id), now=now):
        return _item(Row(found, viewer), now)
    raise Http404


def user_of(request: HttpRequest) -> User:
    if not isinstance(request.user, User):
        raise PermissionDenied  # `moderators_only` stands in front
    return request.user


def query_of(data: QueryDict) -> str:
    """The filters and the order alone, as the query of the same list."""
    query = QueryDict(mutable=True)
    for name in QUERY_NAMES:
        if value := data.get(name):
            query[name] = value
    return query.urlencode()


def _page(cases: Any, start: int, viewer: User, now: datetime) -> Page:
    items = queue_page(cases[start : start + PAGE_SIZE + 1], now=now)
    return Page(rows=[Row(item, viewer) for item in items[:PAGE_SIZE]], start=start, is_more=len(items) > PAGE_SIZE)


def _start(data: QueryDict) -> int:
    return min(max(parse_integer(data.get("start", "")) or 0, 0), MOST_COUNTED)


def _chosen(request: HttpRequest, page: Page, now: datetime) -> dict[str, Any]:
    """The item beside the list: the one that was asked for, else the first. `following_id` is where to go after it."""
    asked = parse_integer(request.GET.get("item", ""))
    ids = [row.case.pk for row in page.rows]
    if asked is None and not ids:
        return {"item": None}
    if asked is None or asked in ids:
        index = ids.index(asked) if asked else 0
        item = _item(page.rows[index], now)
    else:
        index, item = -1, read_item(asked, user_of(request), now)
    following = ids[index + 1] if index + 1 < len(ids) else None
    return {"item": item, "row": item.row, "is_asked": asked is not None, "following_id": following}


def _item(row: Row, now: datetime) -> Item:
    return Item(row=row, file=file_of(row.item, now=now), now=now)


def _done(request: HttpRequest, now: datetime) -> DecisionLine | None:
    """What this moderator has just decided, to be undone."""
    decision_id = parse_integer(request.GET.get("done", ""))
    if decision_id is None:
        return None
    made = Decision.objects.filter(pk=decision_id, moderator=user_of(request)).first()
    return DecisionLine(made) if made and made.can_be_undone(now) else None
