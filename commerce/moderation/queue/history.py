"""Histories of an author, a reporter, a shop or a product: what happened to their items, newest first.

A history reads the newest MAX_CASES items; reports, decisions, appeals and sanctions are merged in the order of time. A
page costs the same number of queries wherever it begins.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from heapq import merge
from itertools import islice
from typing import Any

from django.db.models import Q, QuerySet

from commerce.moderation.models import AbuseReport, Appeal, Case, ContentKind, Decision, Notice, Sanction
from commerce.moderation.reportable_content import CONTENT_MODELS
from shared.api.query_params import parse_integer

MAX_CASES = 1_000
PAGE_SIZE = 25
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REPORTER_NOTICES = (Notice.Kind.REPORT_ACCEPTED, Notice.Kind.REPORT_REJECTED)

Event = AbuseReport | Decision | Appeal | Sanction
ContentKey = tuple[str, int]


class EventKind(IntEnum):
    """Kinds of events, in their order within one moment: what follows from another is later."""

    REPORT = 0
    DECISION = 1
    APPEAL = 2
    SANCTION = 3


@dataclass(frozen=True, order=True)
class HistoryCursor:
    """Place of an event in a history: its time, its kind and its id."""

    at: datetime
    kind: int
    pk: int

    def __str__(self) -> str:
        return f"{(self.at - EPOCH) // timedelta(microseconds=1)}.{self.kind}.{self.pk}"

    @classmethod
    def parse(cls, text: str) -> "HistoryCursor | None":
        """Return the cursor of a URL, or None for any other text."""
        numbers = [parse_integer(part) for part in text.split(".", 3)]
        if len(numbers) != 3 or None in numbers:
            return None
        microseconds, kind, pk = numbers
        try:
            return cls(EPOCH + timedelta(microseconds=microseconds or 0), kind or 0, pk or 0)
        except OverflowError:
            return None


@dataclass(frozen=True, kw_only=True)
class HistoryEvent:
    """An event with its item and the item's text, if it is about one that has a case."""

    kind: EventKind
    row: Any
    case: Case | None = None
    text: str = ""

    @property
    def cursor(self) -> HistoryCursor:
        return HistoryCursor(self.row.created_at, self.kind, self.row.pk)


@dataclass(frozen=True, kw_only=True)
class HistoryPage:
    """A page of a history. `hidden` are the items that are hidden now; `older` is where the next page begins.

    `counts` are the numbers of the items by what has become of them.
    """

    events: Sequence[HistoryEvent]
    older: HistoryCursor | None
    counts: Mapping[str, int]
    hidden: Sequence[Case]
    is_cut: bool


def author_page(user_id: int, *, before: HistoryCursor | None = None) -> HistoryPage:
    """Return what was reported and decided about a user's content, with the user's sanctions."""
    cases = _newest_cases(Q(author_id=user_id))
    return _page(cases, _events_of_cases(cases) | {EventKind.SANCTION: _sanctions(user_id)}, before)


def reporter_page(user_id: int, *, before: HistoryCursor | None = None) -> HistoryPage:
    """Return what a user reported, with the decisions about it and the user's sanctions.

    The reports of a rejected item are deleted, so its decision is found by the notice that the reporter received.
    """
    reports = AbuseReport.objects.filter(user_id=user_id)
    decided = Notice.objects.filter(user_id=user_id, kind__in=REPORTER_NOTICES).order_by("-due_at", "-id")
    decision_ids = [pk for pk in decided.values_list("decision_id", flat=True)[:MAX_CASES] if pk]
    contents = set(reports.order_by("-id").values_list("model_type", "model_id")[:MAX_CASES])
    contents |= set(Decision.objects.filter(pk__in=decision_ids).values_list("case__model_type", "case__model_id"))
    cases = _newest_cases(_about(contents))
    sources: dict[EventKind, QuerySet[Any]] = {
        EventKind.SANCTION: _sanctions(user_id),
        EventKind.APPEAL: Appeal.objects.filter(decision__in=decision_ids),
        EventKind.DECISION: Decision.objects.filter(pk__in=decision_ids),
        EventKind.REPORT: reports,
    }
    return _page(cases, sources, before)


def shop_page(shop_id: int, *, before: HistoryCursor | None = None) -> HistoryPage:
    """Return what was reported and decided about the reviews of a shop's products and the questions to it."""
    cases = _newest_cases(Q(shop_id=shop_id))
    return _page(cases, _events_of_cases(cases), before)


def product_page(product_id: int, *, before: HistoryCursor | None = None) -> HistoryPage:
    """Return what was reported and decided about the reviews of a product and the questions about it."""
    about = Q()
    for kind, model in CONTENT_MODELS.items():
        contents = model._default_manager.filter(product_id=product_id).order_by()
        about |= Q(model_type=kind, model_id__in=contents.values("pk"))
    cases = _newest_cases(about)
    return _page(cases, _events_of_cases(cases), before)


HISTORY_PAGES: Mapping[str, Callable[..., HistoryPage]] = {
    "author": author_page,
    "reporter": reporter_page,
    "shop": shop_page,
    "product": product_page,
}


def _newest_cases(condition: Q) -> list[Case]:
    """Return up to MAX_CASES + 1 cases, the newest first."""
    return list(Case.objects.filter(condition).order_by("-id")[: MAX_CASES + 1])


def _about(contents: Iterable[ContentKey]) -> Q:
    """Return the condition of the rows about these contents."""
    ids: dict[str, list[int]] = {kind: [] for kind in ContentKind}
    for kind, model_id in contents:
        ids[kind].append(model_id)
    condition = Q(pk__in=[])
    for kind, model_ids in ids.items():
        condition |= Q(model_type=kind, model_id__in=model_ids)
    return condition


def _events_of_cases(cases: Sequence[Case]) -> dict[EventKind, "QuerySet[Any]"]:
    case_ids = [case.pk for case in cases[:MAX_CASES]]
    about = _about((case.model_type, case.model_id) for case in cases[:MAX_CASES])
    return {
        EventKind.APPEAL: Appeal.objects.filter(case__in=case_ids),
        EventKind.DECISION: Decision.objects.filter(case__in=case_ids),
        EventKind.REPORT: AbuseReport.objects.filter(about),
    }


def _sanctions(user_id: int) -> "QuerySet[Sanction]":
    return Sanction.objects.filter(user_id=user_id)


RELATIONS: Mapping[EventKind, tuple[str, ...]] = {
    EventKind.SANCTION: ("moderator",),
    EventKind.APPEAL: ("author",),
    EventKind.DECISION: ("moderator",),
    EventKind.REPORT: ("user", "reason"),
}
UNSHOWN_COLUMNS: Mapping[EventKind, tuple[str, ...]] = {EventKind.DECISION: ("before", "reports")}


def _page(
    cases: Sequence[Case], sources: Mapping[EventKind, "QuerySet[Any]"], before: HistoryCursor | None
) -> HistoryPage:  # fmt: skip
    """Return the next PAGE_SIZE events of these sources, of each of which one page is read."""
    shown = cases[:MAX_CASES]
    by_id = {case.pk: case for case in shown}
    by_content = {(case.model_type, case.model_id): case for case in shown}

    def events(kind: EventKind, rows: "QuerySet[Any]") -> list[HistoryEvent]:
        rows = rows.select_related(*RELATIONS[kind]).defer(*UNSHOWN_COLUMNS.get(kind, ()))
        page = _after(rows, kind, before).order_by("-created_at", "-id")[: PAGE_SIZE + 1]
        return [HistoryEvent(kind=kind, row=row, case=_case_of(row, by_id, by_content)) for row in page]

    ordered = merge(
        *(events(kind, rows) for kind, rows in sources.items()), key=lambda event: event.cursor, reverse=True
    )
    found = list(islice(ordered, PAGE_SIZE + 1))
    hidden = [case for case in shown if case.hiding != Case.Hiding.NONE]
    return HistoryPage(
        events=_with_texts(found[:PAGE_SIZE]),
        older=found[PAGE_SIZE - 1].cursor if len(found) > PAGE_SIZE else None,
        counts={
            "reported": len(shown),
            "waiting": sum(case.is_waiting for case in shown),
            "hidden": len(hidden),
            "taken_down": sum(case.state in (Case.State.ACCEPTED, Case.State.APPEALED) for case in shown),
            "appealed": sum(case.state == Case.State.APPEALED for case in shown),
        },
        hidden=hidden,
        is_cut=len(cases) > MAX_CASES,
    )


def _with_texts(events: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    texts: dict[ContentKey, str] = {}
    for kind, model in CONTENT_MODELS.items():
        ids = {event.case.model_id for event in events if event.case and event.case.model_type == kind}
        rows = model._default_manager.filter(pk__in=ids).values_list("pk", model.text_field)
        texts |= {(kind, pk): text for pk, text in rows}
    return [
        replace(event, text=texts.get((event.case.model_type, event.case.model_id), "")) if event.case else event
        for event in events
    ]


def _after(rows: "QuerySet[Any]", kind: EventKind, before: HistoryCursor | None) -> "QuerySet[Any]":
    """Return the rows of this kind that stand below a cursor."""
    if before is None:
        return rows
    at_once = Q(created_at=before.at)
    if kind == before.kind:
        return rows.filter(Q(created_at__lt=before.at) | at_once & Q(pk__lt=before.pk))
    return (
        rows.filter(Q(created_at__lt=before.at) | at_once)
        if kind < before.kind
        else rows.filter(created_at__lt=before.at)
    )


def _case_of(row: Event, by_id: Mapping[int, Case], by_content: Mapping[ContentKey, Case]) -> Case | None:
    if isinstance(row, Sanction):
        return None
    if isinstance(row, AbuseReport):
        return by_content.get((row.model_type, row.model_id))
    return by_id.get(row.case_id)
