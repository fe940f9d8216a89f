"""Decisions about many cases at once, with a preview. Each case gets a decision of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from commerce.moderation.appeals import decide_appeal
from commerce.moderation.decisions import NO_MESSAGE, Action, Conflict, DecisionMessage, check_moderator
from commerce.moderation.models import Appeal, Case, Decision, DecisionSuggestion
from commerce.moderation.services import decide
from commerce.moderation.suggestions.reading import alike_cases, suggested_action
from shared.accounts.models import User
from shared.api.errors import ApiError

MAX_BULK_CASES = 200
VERDICTS = (Action.ACCEPTED, Action.REJECTED)
NO_LONGER_ALIKE = "This has changed since it was compared: decide about it alone."
APPEAL_ACTIONS = (Action.ACCEPTED, Action.REJECTED, Action.ESCALATED)


@dataclass(frozen=True, kw_only=True)
class CaseOutcome:
    """The decision about one case, or the reason why there is none."""

    case_id: int
    decision: Decision | None
    refusal: str = ""


@dataclass(frozen=True, kw_only=True)
class DecisionPreview:
    """The effect that a decision about many cases would have.

    `reports` counts those that would no longer wait. `refused` maps the id of each case that cannot be decided to the
    reason.
    """

    action: str
    items: int
    reports: int
    hidden: int
    brigaded: int
    notified_authors: int
    refused: Mapping[int, str]


def decide_case(
    *,
    case_id: int,
    action: str,
    moderator: User,
    now: datetime,
    message: DecisionMessage = NO_MESSAGE,
    suggested: str = "",
) -> Decision:
    """Decide about a case of the queue. For an appealed one, accepting keeps the content down, rejecting restores it.

    `suggested` is the verdict that the moderator's page showed. It is saved if it is what is suggested now.
    Raises the errors of the services, and Conflict for a case that no longer waits.
    """
    if not suggested or action not in VERDICTS or suggested_action(case_id) != suggested:
        return _decide(case_id, action, moderator, now, message)
    with transaction.atomic():
        decision = _decide(case_id, action, moderator, now, message)
        DecisionSuggestion.objects.create(decision=decision, action=suggested)
    return decision


def _decide(case_id: int, action: str, moderator: User, now: datetime, message: DecisionMessage) -> Decision:
    case = Case.objects.filter(pk=case_id).first()
    if case is None:
        raise ApiError(404, "There is no case with this id.")
    if refusal := _refusal(case, action):
        raise Conflict(refusal)
    if case.state == Case.State.APPEALED and action != Action.ESCALATED:
        appeal = case.appeals.filter(status=Appeal.Status.OPEN).first()
        if appeal is None:  # since the case was read
            raise Conflict("This has been decided already.")
        overturn = action == Action.REJECTED
        return decide_appeal(appeal_id=appeal.pk, overturn=overturn, moderator=moderator, message=message, now=now)
    return decide(
        action, model_type=case.model_type, model_id=case.model_id, moderator=moderator, message=message, now=now
    )


def decide_cases(
    *,
    case_ids: Sequence[int],
    action: str,
    moderator: User,
    now: datetime,
    message: DecisionMessage = NO_MESSAGE,
    like: int | None = None,
    suggested: str = "",
) -> list[CaseOutcome]:
    """Make the same decision about each case; one that is refused does not stop the others.

    With `like`, the id of a case, those are refused that no longer say nearly what it says. `suggested` is the verdict
    that the page of that case showed.
    Raises ValueError for more than MAX_BULK_CASES.
    """
    if len(case_ids) > MAX_BULK_CASES:
        raise ValueError(f"Decide about at most {MAX_BULK_CASES} cases at once, not {len(case_ids)}.")
    outcomes, changed = [], _no_longer_alike(case_ids, like)
    for case_id in case_ids:
        if case_id in changed:
            outcomes.append(CaseOutcome(case_id=case_id, decision=None, refusal=NO_LONGER_ALIKE))
            continue
        shown = suggested if case_id == like else ""
        try:
            decision = decide_case(
                case_id=case_id, action=action, moderator=moderator, message=message, suggested=shown, now=now
            )
            outcomes.append(CaseOutcome(case_id=case_id, decision=decision))
        except ApiError as error:
            outcomes.append(CaseOutcome(case_id=case_id, decision=None, refusal=str(error)))
    return outcomes


def preview_decision(
    *, case_ids: Sequence[int], action: str, moderator: User | None = None, like: int | None = None
) -> DecisionPreview:
    """Return what `decide_cases` would do now, by this moderator if one is given."""
    cases = list(Case.objects.filter(pk__in=case_ids))
    refused = dict.fromkeys(_no_longer_alike(case_ids, like), NO_LONGER_ALIKE)
    refused |= {case.pk: reason for case in cases if (reason := _refusal(case, action))}
    if moderator is not None:
        refused |= {case.pk: reason for case in cases if (reason := _prohibition(case, action, moderator))}
    refused |= dict.fromkeys(set(case_ids) - {case.pk for case in cases}, "There is no case with this id.")
    accepted = [case for case in cases if case.pk not in refused]
    settles = action in VERDICTS
    notified = [case for case in accepted if _notifies_author(case, action)]
    return DecisionPreview(
        action=action,
        items=len(accepted),
        reports=sum(case.reports_count for case in accepted) if settles else 0,
        hidden=sum(case.hiding != Case.Hiding.NONE for case in accepted),
        brigaded=sum(case.is_brigaded for case in accepted),
        notified_authors=len({case.author_id for case in notified}),
        refused=refused,
    )


def _notifies_author(case: Case, action: str) -> bool:
    """Return whether `create_notices` sends the author one: also for publishing held content and deciding an appeal."""
    if case.state == Case.State.APPEALED:
        return action != Action.ESCALATED
    is_held = case.hiding == Case.Hiding.HELD
    return action in (Action.ACCEPTED, Action.WARNED) or (is_held and action in (Action.REJECTED, Action.SHOWN))


def _no_longer_alike(case_ids: Sequence[int], like: int | None) -> set[int]:
    return set(case_ids) - set(alike_cases(like)) if like is not None else set()


def _prohibition(case: Case, action: str, moderator: User) -> str:
    """Return why this moderator may not decide about the case, or an empty string."""
    try:
        check_moderator(case, moderator, action)
    except ApiError as error:
        return str(error)
    return ""


def _refusal(case: Case, action: str) -> str:
    """Return why this action is impossible for the case, or an empty string."""
    if not case.is_waiting:
        return "This has been decided already."
    if case.state == Case.State.APPEALED and action not in APPEAL_ACTIONS:
        return "There is an open appeal: keep the content down or bring it back."
    if action == Action.HIDDEN and case.is_hidden_by_moderator():
        return "A moderator has hidden this already."
    if action == Action.ESCALATED and case.is_escalated:
        return "This is escalated already."
    if action == Action.SHOWN and case.hiding == Case.Hiding.NONE:
        return "This is not hidden."
    return ""
