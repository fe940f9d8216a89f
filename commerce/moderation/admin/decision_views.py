"""Views in which moderators decide, undo and claim. They redirect to the queue, or answer its script with JSON."""

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
from commerce.moderation.admin.forms import BULK_ACTIONS, BulkDecisionForm, DecisionForm
from commerce.moderation.admin.presenters import QueueRow
from commerce.moderation.admin.queue_views import list_query
from commerce.moderation.decisions import Action, DecisionMessage
from commerce.moderation.labels import ACTIONS, translate_error
from commerce.moderation.models import Case, Decision
from commerce.moderation.queue.bulk import decide_case, decide_cases, preview_decision
from commerce.moderation.queue.listing import queue_page
from commerce.moderation.undo import undo_decision
from shared.accounts.models import User
from shared.accounts.permissions import signed_in_user
from shared.api.errors import ApiError
from shared.api.query_params import parse_integer

QUEUE = "admin:commerce_moderation_case_changelist"


def decide(request: HttpRequest, case_id: int) -> HttpResponse:
    """Decide about one case. Answers 409 with the earlier decision if another moderator was first."""
    form = DecisionForm(request.POST)
    if not form.is_valid():
        is_unfilled = form.has_error("reason", "placeholder")
        message = _("Choose one of the buttons, and write at most 2000 characters.")
        return _refused(request, case_id, str(form.errors["reason"][0]) if is_unfilled else message, 422)
    action, now, moderator = form.cleaned_data["action"], timezone.now(), signed_in_user(request)
    suggested = form.cleaned_data["suggested"]
    make = _restore if action == Action.RESTORED else partial(decide_case, action=action, suggested=suggested)
    try:
        decision = make(case_id=case_id, moderator=moderator, message=form.message(), now=now)
    except ApiError as error:
        return _refused(request, case_id, _explain_refusal(case_id, moderator, error), error.problem.status)
    return _decided(request, decision)


def undo(request: HttpRequest, decision_id: int) -> HttpResponse:
    """Undo one decision."""
    try:
        decision = undo_decision(decision_id=decision_id, moderator=signed_in_user(request), now=timezone.now())
    except ApiError as error:
        return _answer(request, {"outcome": translate_error(error), "refused": True}, error.problem.status)
    result = {"outcome": _("Undone: %(what)s") % {"what": ACTIONS[decision.action]}, "case": decision.case_id}
    return _answer(request, result, item=decision.case_id)


def claim(request: HttpRequest, case_id: int) -> HttpResponse:
    """Claim a case. The answer says who else has it open, or who has decided it since."""
    try:
        case = services.claim_case(case_id=case_id, moderator=signed_in_user(request), now=timezone.now())
    except ApiError as error:
        return _answer(request, {"outcome": translate_error(error), "refused": True}, error.problem.status)
    other = case.claimed_by if case.claimed_by != request.user else None
    notice = _("%(name)s is looking at this now.") % {"name": other.name} if other else ""
    if not case.is_waiting:
        notice = _describe_last_decision(case_id, signed_in_user(request))
    return JsonResponse({"told": notice, "is_waiting": case.is_waiting})


def release(request: HttpRequest, case_id: int) -> HttpResponse:
    """End the moderator's claim of a case."""
    services.release_case(case_id=case_id, moderator=signed_in_user(request))
    return HttpResponse(status=204)


def preview_many(request: HttpRequest) -> HttpResponse:
    """Show what one decision about all selected cases would do."""
    form = BulkDecisionForm(request.POST)
    if not form.is_valid():
        return _invalid_selection(request, form)
    action, case_ids = form.cleaned_data["action"], form.cleaned_data["case"]
    moderator, like = signed_in_user(request), form.cleaned_data["like"]
    preview = preview_decision(case_ids=case_ids, action=action, moderator=moderator, like=like)
    rows = _rows(case_ids, moderator)
    context = {
        "title": _("Decide about many"),
        "preview": preview,
        "action": BULK_ACTIONS[action],
        "like": like,
        "suggested": form.cleaned_data["suggested"],
        "message": form.message(),
        "lines": [(row, translate_error(preview.refused.get(row.case.pk, ""))) for row in rows],
        "query": _posted_query(request),
    }
    return render(request, "moderation/preview.html", admin.site.each_context(request) | context)


def decide_many(request: HttpRequest) -> HttpResponse:
    """Make the same decision about the selected cases and show the results, which can be undone."""
    form = BulkDecisionForm(request.POST)
    if not form.is_valid():
        return _invalid_selection(request, form)
    case_ids = form.cleaned_data["case"]
    outcomes = decide_cases(
        case_ids=case_ids,
        action=form.cleaned_data["action"],
        moderator=signed_in_user(request),
        message=form.message(),
        like=form.cleaned_data["like"],
        suggested=form.cleaned_data["suggested"],
        now=timezone.now(),
    )
    by_case = {outcome.case_id: outcome for outcome in outcomes}
    lines = [
        (row, (outcome := by_case[row.case.pk]).decision, translate_error(outcome.refusal))
        for row in _rows(case_ids, signed_in_user(request))
    ]
    context = {
        "title": _("Decided about many"),
        "action": BULK_ACTIONS[form.cleaned_data["action"]],
        "lines": lines,
        "decided": [outcome.decision for outcome in outcomes if outcome.decision],
        "query": _posted_query(request),
    }
    return render(request, "moderation/outcome.html", admin.site.each_context(request) | context)


def _invalid_selection(request: HttpRequest, form: BulkDecisionForm) -> HttpResponse:
    messages.error(request, " ".join(str(error) for errors in form.errors.values() for error in errors))
    return _to_queue(request)


def undo_many(request: HttpRequest) -> HttpResponse:
    """Undo each of these decisions that still can be undone."""
    moderator, undone, errors = signed_in_user(request), 0, []
    for decision_id in filter(None, map(parse_integer, request.POST.getlist("decision"))):
        try:
            undo_decision(decision_id=decision_id, moderator=moderator, now=timezone.now())
            undone += 1
        except ApiError as error:
            errors.append(translate_error(error))
    messages.success(request, _("Decisions undone: %(count)d") % {"count": undone})
    for message in sorted(set(errors)):
        messages.error(request, f"{message} ({errors.count(message)})")
    return _to_queue(request)


def _restore(*, case_id: int, moderator: User, message: DecisionMessage, now: datetime) -> Decision:
    case = Case.objects.filter(pk=case_id).first()
    if case is None:
        raise ApiError(404, "There is no case with this id.")
    return services.decide(
        Action.RESTORED,
        model_type=case.model_type,
        model_id=case.model_id,
        moderator=moderator,
        message=message,
        now=now,
    )


def _rows(case_ids: list[int], viewer: User) -> list[QueueRow]:
    cases: QuerySet[Case] = Case.objects.filter(pk__in=case_ids).order_by("pk")
    return [QueueRow(item, viewer) for item in queue_page(cases, now=timezone.now())]


def _explain_refusal(case_id: int, moderator: User, error: ApiError) -> str:
    """Return why a decision was refused, with the earlier decision if there is one."""
    reason = translate_error(error)
    if error.problem.status not in (404, 409):
        return reason
    return f"{_('Your decision was not counted.')} {_describe_last_decision(case_id, moderator) or reason}"


def _describe_last_decision(case_id: int, moderator: User) -> str:
    """Return who decided last about a case and what, or an empty string."""
    case = Case.objects.select_related("last_decision__moderator").filter(pk=case_id).first()
    last = case.last_decision if case else None
    if last is None or last.moderator is None:
        return ""
    who = _("You") if last.moderator == moderator else last.moderator.name
    return _("%(who)s decided first: %(what)s.") % {"who": who, "what": ACTIONS[last.action]}


def _decided(request: HttpRequest, decision: Decision) -> HttpResponse:
    if not wants_json(request):
        return _to_queue(request, done=decision.pk)
    return JsonResponse(
        {
            "outcome": str(ACTIONS[decision.action]),
            "case": decision.case_id,
            "undo": reverse("admin:commerce_moderation_undo", args=[decision.pk]),
            "is_waiting": decision.case.is_waiting,
        }
    )


def _refused(request: HttpRequest, case_id: int, message: str, status: int) -> HttpResponse:
    decided = {"case": case_id} if status in (404, 409) else {}  # else it is still to be decided
    return _answer(request, {"outcome": message, "refused": True, **decided}, status, item=case_id)


def _answer(
    request: HttpRequest, result: dict[str, Any], status: int = 200, *, item: int | None = None
) -> HttpResponse:
    if wants_json(request):
        return JsonResponse(result, status=status)
    (messages.error if status >= 400 else messages.success)(request, result["outcome"])
    return _to_queue(request, item=item)


def wants_json(request: HttpRequest) -> bool:
    return "application/json" in request.headers.get("Accept", "")


def _to_queue(request: HttpRequest, **more: int | None) -> HttpResponseRedirect:
    """Return a redirect to the list that the form was sent from."""
    query = QueryDict(_posted_query(request), mutable=True)
    following = parse_integer(request.POST.get("following", ""))
    if "done" in more and following:
        query["item"] = str(following)
    for name, value in more.items():
        if value is not None:
            query[name] = str(value)
    return HttpResponseRedirect(f"{reverse(QUEUE)}?{query.urlencode()}")


def _posted_query(request: HttpRequest) -> str:
    """Return the filters that the form sent; nothing else of it may enter a URL."""
    return list_query(QueryDict(request.POST.get("query", "")))
