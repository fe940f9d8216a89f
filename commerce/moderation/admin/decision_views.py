"""What moderators do on their pages: decide, undo, and say what they look at. A form's answer is a redirect; to the
page's script, which asks for JSON, it is a few words."""

from datetime import datetime
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from commerce.moderation import services
from commerce.moderation.admin.forms import MANY, DecisionForm, ManyForm
from commerce.moderation.admin.labels import DONE, refusal
from commerce.moderation.admin.presenters import DecisionLine, Row
from commerce.moderation.admin.queue_views import query_of, user_of
from commerce.moderation.decisions import Action, Words
from commerce.moderation.models import Case, Decision
from commerce.moderation.queue.bulk import decide_case, decide_cases, preview_decision
from commerce.moderation.queue.listing import queue_page
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.api.query_params import parse_integer

QUEUE = "admin:commerce_moderation_case_changelist"


def decide(request: HttpRequest, case_id: int) -> HttpResponse:
    """One decision about one item. 409 where it did not count, with who was first."""
    form = DecisionForm(request.POST)
    if not form.is_valid():
        return _refused(request, case_id, _("Choose one of the buttons, and keep your words short."), 422)
    action, now, moderator = form.cleaned_data["action"], timezone.now(), user_of(request)
    make = _restore if action == Action.RESTORED else partial(decide_case, action=action)
    try:
        decision = make(case_id=case_id, moderator=moderator, words=form.words(), now=now)
    except ApiError as error:
        return _refused(request, case_id, _why_not(case_id, moderator, error), error.problem.status)
    return _decided(request, decision)


def undo(request: HttpRequest, decision_id: int) -> HttpResponse:
    """Takes one decision back."""
    try:
        decision = services.undo_decision(decision_id=decision_id, moderator=user_of(request), now=timezone.now())
    except ApiError as error:
        return _answer(request, {"outcome": refusal(error), "refused": True}, error.problem.status)
    words = {"outcome": _("Undone: %(what)s") % {"what": DONE[decision.action]}, "case": decision.case_id}
    return _answer(request, words, item=decision.case_id)


def claim(request: HttpRequest, case_id: int) -> HttpResponse:
    """Says that this moderator looks at an item. Answers who else does, and whether it is decided by now."""
    try:
        held = services.claim_case(case_id=case_id, moderator=user_of(request), now=timezone.now())
    except ApiError as error:
        return _answer(request, {"outcome": refusal(error), "refused": True}, error.problem.status)
    other = held.moderator if held.moderator != request.user else None
    told = _("%(name)s is looking at this now.") % {"name": other.name} if other else ""
    is_waiting = Case.objects.waiting().filter(pk=case_id).exists()
    if not is_waiting:
        told = _last_word(case_id, user_of(request))
    return JsonResponse({"told": told, "is_waiting": is_waiting})


def release(request: HttpRequest, case_id: int) -> HttpResponse:
    """Ends it."""
    services.release_case(case_id=case_id, moderator=user_of(request))
    return HttpResponse(status=204)


def preview_many(request: HttpRequest) -> HttpResponse:
    """What one decision about all chosen items would do."""
    form = ManyForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(str(error) for errors in form.errors.values() for error in errors))
        return _to_queue(request)
    action, case_ids = form.cleaned_data["action"], form.cleaned_data["case"]
    preview = preview_decision(case_ids=case_ids, action=action)
    context = {
        "title": _("Decide about many"),
        "preview": preview,
        "action": MANY[action],
        "words": form.words(),
        "lines": [(row, refusal(preview.refused.get(row.case.pk, ""))) for row in _rows(case_ids, user_of(request))],
        "query": _asked_query(request),
    }
    return render(request, "moderation/preview.html", admin.site.each_context(request) | context)


def decide_many(request: HttpRequest) -> HttpResponse:
    """The same about each of them; what came of it is shown, and can be undone."""
    form = ManyForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(str(error) for errors in form.errors.values() for error in errors))
        return _to_queue(request)
    case_ids = form.cleaned_data["case"]
    outcomes = decide_cases(
        case_ids=case_ids,
        action=form.cleaned_data["action"],
        moderator=user_of(request),
        words=form.words(),
        now=timezone.now(),
    )
    by_case = {outcome.case_id: outcome for outcome in outcomes}
    lines = [
        (row, (made := by_case[row.case.pk]).decision, refusal(made.refusal))
        for row in _rows(case_ids, user_of(request))
    ]
    context = {
        "title": _("Decided about many"),
        "action": MANY[form.cleaned_data["action"]],
        "lines": lines,
        "decided": [outcome.decision for outcome in outcomes if outcome.decision],
        "query": _asked_query(request),
    }
    return render(request, "moderation/outcome.html", admin.site.each_context(request) | context)


def undo_many(request: HttpRequest) -> HttpResponse:
    """Takes back each of these decisions that still can be."""
    moderator, undone, refusals = user_of(request), 0, []
    for decision_id in filter(None, map(parse_integer, request.POST.getlist("decision"))):
        try:
            services.undo_decision(decision_id=decision_id, moderator=moderator, now=timezone.now())
            undone += 1
        except ApiError as error:
            refusals.append(refusal(error))
    messages.success(request, _("Decisions undone: %(count)d") % {"count": undone})
    for words in sorted(set(refusals)):
        messages.error(request, f"{words} ({refusals.count(words)})")
    return _to_queue(request)


def _restore(*, case_id: int, moderator: User, words: Words, now: datetime) -> Decision:
    case = Case.objects.filter(pk=case_id).first()
    if case is None:
        raise ApiError(404, "There is no such case.")
    return services.restore_content(
        model_type=case.model_type,
        model_id=case.model_id,
        moderator=moderator,
        words=words,
        now=now,
    )


def _rows(case_ids: list[int], viewer: User) -> list[Row]:
    cases: QuerySet[Case] = Case.objects.filter(pk__in=case_ids).order_by("pk")
    return [Row(item, viewer) for item in queue_page(cases, now=timezone.now())]


def _why_not(case_id: int, moderator: User, error: ApiError) -> str:
    """Why a decision did not count, beginning with whose did."""
    told = refusal(error)
    if error.problem.status not in (404, 409):
        return told
    first = _last_word(case_id, moderator)
    return f"{_('Your decision was not counted.')} {first or told}"


def _last_word(case_id: int, moderator: User) -> str:
    """Who decided last about an item, and what. Nothing where nobody has."""
    case = Case.objects.select_related("last_decision__moderator").filter(pk=case_id).first()
    last = case.last_decision if case else None
    if last is None or last.moderator is None:
        return ""
    who = _("You") if last.moderator == moderator else last.moderator.name
    return _("%(who)s decided first: %(what)s.") % {"who": who, "what": DONE[last.action]}


def _decided(request: HttpRequest, decision: Decision) -> HttpResponse:
    undo_url = reverse("admin:commerce_moderation_undo", args=[decision.pk])
    case = decision.case
    words: dict[str, Any] = {
        "outcome": str(DecisionLine(decision).text),
        "case": case.pk,
        "undo": undo_url,
        "is_waiting": case.is_waiting,
    }
    if wants_json(request):
        return JsonResponse(words)
    return _to_queue(request, done=decision.pk)


def _refused(request: HttpRequest, case_id: int, words: str, status: int) -> HttpResponse:
    return _answer(request, {"outcome": words, "refused": True, "case": case_id}, status, item=case_id)


def _answer(request: HttpRequest, words: dict[str, Any], status: int = 200, *, item: int | None = None) -> HttpResponse:
    if wants_json(request):
        return JsonResponse(words, status=status)
    (messages.error if status >= 400 else messages.success)(request, words["outcome"])
    return _to_queue(request, item=item)


def wants_json(request: HttpRequest) -> bool:
    return "application/json" in request.headers.get("Accept", "")


def _to_queue(request: HttpRequest, **more: int | None) -> HttpResponseRedirect:
    """Back to the same list."""
    query = QueryDict(_asked_query(request), mutable=True)
    following = parse_integer(request.POST.get("following", ""))
    if "done" in more and following:
        query["item"] = str(following)
    for name, value in more.items():
        if value is not None:
            query[name] = str(value)
    return HttpResponseRedirect(f"{reverse(QUEUE)}?{query.urlencode()}")


def _asked_query(request: HttpRequest) -> str:
    """The list's filters, of what the form brought along: nothing else of it goes into an address."""
    return query_of(QueryDict(request.POST.get("query", "")))
