"""Many items of the queue at once: what would happen, and doing it, each item a decision of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from commerce.moderation import services
from commerce.moderation.appeals import decide_appeal
from commerce.moderation.decisions import Action, Conflict, Words
from commerce.moderation.models import Appeal, Case, Decision
from commerce.moderation.services import NOTHING_SAID
from shared.accounts.models import User
from shared.api.errors import ApiError

MOST_AT_ONCE = 200

Decide = Callable[..., Decision]
DECIDE: Mapping[str, Decide] = {
    Action.ACCEPTED: services.accept_report,
    Action.REJECTED: services.reject_report,
    Action.HIDDEN: services.hide_content,
    Action.SHOWN: services.show_content,
    Action.WARNED: services.warn_author,
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one item: a decision, or why there is none."""

    case_id: int
    decision: Decision | None
    refusal: str = ""


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What deciding would do. `reports`: those that wait no more then. `refused`: why an item could not be decided, by
    the case's id."""

    action: str
    items: int
    reports: int
    hidden: int
    brigaded: int
    authors_told: int
    refused: Mapping[int, str]


def decide_case(*, case_id: int, action: str, moderator: User, now: datetime, words: Words = NOTHING_SAID) -> Decision:
    """One decision about an item of the queue, whichever kind of item it is: of an appealed one, accepting keeps it
    down and rejecting brings it back. Raises what the services do, Conflict for one that waits no more."""
    case = Case.objects.filter(pk=case_id).first()
    if case is None:
        raise ApiError(404, "There is no case with this id.")
    if refusal := _refusal(case, action):
        raise Conflict(refusal)
    if case.state == Case.State.APPEALED:
        appeal = case.appeals.filter(status=Appeal.Status.OPEN).first()
        if appeal is None:  # since the case was read
            raise Conflict("This has been decided already.")
        overturn = action == Action.REJECTED
        return decide_appeal(appeal_id=appeal.pk, overturn=overturn, moderator=moderator, words=words, now=now)
    decide = DECIDE[action]
    return decide(
        model_type=case.model_type, model_id=case.model_id, moderator=moderator, words=words, now=now
    )  # fmt: skip


def decide_cases(
    *, case_ids: Sequence[int], action: str, moderator: User, now: datetime, words: Words = NOTHING_SAID
) -> list[Outcome]:
    """The same about each of at most MOST_AT_ONCE items; one that cannot be decided stops none of the others. Raises
    ValueError for more."""
    if len(case_ids) > MOST_AT_ONCE:
        raise ValueError(f"Decide about at most {MOST_AT_ONCE} items at once.")
    outcomes = []
    for case_id in case_ids:
        try:
            decision = decide_case(case_id=case_id, action=action, moderator=moderator, words=words, now=now)
            outcomes.append(Outcome(case_id=case_id, decision=decision))
        except ApiError as error:
            outcomes.append(Outcome(case_id=case_id, decision=None, refusal=str(error)))
    return outcomes


def preview_decision(*, case_ids: Sequence[int], action: str) -> Preview:
    """What `decide_cases` would do now; it changes nothing."""
    cases = list(Case.objects.filter(pk__in=case_ids))
    refused = {case.pk: reason for case in cases if (reason := _refusal(case, action))}
    refused |= dict.fromkeys(set(case_ids) - {case.pk for case in cases}, "There is no such case.")
    able = [case for case in cases if case.pk not in refused]
    settles = action in (Action.ACCEPTED, Action.REJECTED)
    tells = [case for case in able if action in (Action.ACCEPTED, Action.WARNED) or case.state == Case.State.APPEALED]
    return Preview(
        action=action,
        items=len(able),
        reports=sum(case.reports_count for case in able) if settles else 0,
        hidden=sum(case.hiding != Case.Hiding.NONE for case in able),
        brigaded=sum(case.is_brigaded for case in able),
        authors_told=len({case.author_id for case in tells}),
        refused=refused,
    )


def _refusal(case: Case, action: str) -> str:
    """Why this action is none for the case; empty where it is one."""
    if not case.is_waiting:
        return "This has been decided already."
    if case.state == Case.State.APPEALED and action not in (Action.ACCEPTED, Action.REJECTED):
        return "An appeal is accepted or rejected: the content is down as long as it waits."
    if action == Action.HIDDEN and case.hiding == Case.Hiding.MODERATOR:
        return "A moderator has hidden this already."
    if action == Action.SHOWN and case.hiding == Case.Hiding.NONE:
        return "This is not hidden."
    return ""
