"""Reports, decisions on cases, and claims. Each function is one transaction that locks the content first.

Of several concurrent decisions on the same content, one succeeds.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F

from commerce.moderation.cases import add_report, open_reports, report_standing
from commerce.moderation.decisions import (
    NO_MESSAGE,
    Action,
    Conflict,
    DecisionMessage,
    PendingDecision,
    begin_decision,
    check_no_recent_decision,
    finish_decision,
    get_or_create_case,
    update_report_count,
)
from commerce.moderation.models import AbuseReport, Case, ContentKind, Decision, Reporter, ReportReason
from commerce.moderation.reportable_content import (
    CONTENT_MODELS,
    ContentNotFound,
    Reportable,
    lock_content,
    parse_kind,
)
from commerce.moderation.sanctions import check_may_write
from commerce.reviews.models import Review
from commerce.reviews.services import set_visibility
from commerce.shops.models import Shop
from commerce.webhooks.events import announce_review
from shared.accounts.models import User
from shared.accounts.services import lock_active_user
from shared.api.errors import ApiError

CLAIM_LIFETIME = timedelta(minutes=5)


@transaction.atomic
def file_report(
    *, user: User, model_type: str, model_id: int, message: str, reason: ReportReason | None = None, now: datetime
) -> AbuseReport:
    """Create a user's report of visible content, and hide the content once enough trusted reporters reported it.

    Raises ContentNotFound, ApiError 409 if the user has reported the content before, and 403 for a sanctioned user.
    """
    kind = parse_kind(model_type)
    lock_active_user(user)
    check_may_write(user=user, now=now)
    content = lock_content(kind, model_id)
    if content.hidden_at:
        raise ContentNotFound
    report = _new_report(user, content, now)
    report.model_type, report.model_id, report.message, report.reason = kind, model_id, message, reason
    try:
        with transaction.atomic():
            report.save()
    except IntegrityError:
        raise ApiError(409, "You have reported this already.") from None
    reported = CONTENT_MODELS[kind]._default_manager.filter(pk=model_id)
    reported.update(abusive_reports_count=F("abusive_reports_count") + 1)
    content.abusive_reports_count += 1
    _hide_if_due(add_report(get_or_create_case(kind, content, now), report, now=now), content, now)
    return report


def _new_report(user: User, content: Reportable, now: datetime) -> AbuseReport:
    """Return an unsaved report with the reporter's weight and its standing."""
    weight = (Reporter.objects.filter(user=user).first() or Reporter(user=user)).weight
    is_involved = content.user_id == user.pk or Shop.objects.for_user(user).filter(pk=content.shop_id).exists()
    standing = report_standing(weight=weight, account_age=now - user.created_at, is_involved=is_involved)
    return AbuseReport(user=user, weight=weight, standing=standing, created_at=now, updated_at=now)


def _hide_if_due(case: Case, content: Reportable, now: datetime) -> None:
    """Hide content that enough trusted reporters reported, unless a moderator has cleared it."""
    threshold = settings.MODERATION_AUTO_HIDE_AFTER
    if not threshold or case.is_cleared or case.trusted_count < threshold:
        return
    trusted = list(open_reports(case).filter(standing=AbuseReport.Standing.TRUSTED))
    pending = begin_decision(Action.HIDDEN, case, content, trusted, moderator=None, message=NO_MESSAGE, now=now)
    set_visibility(content, deleted_at=None, hidden_at=now, now=now)
    finish_decision(pending, Case.State.OPEN, hiding=Case.Hiding.AUTOMATIC, now=now)


@transaction.atomic
def decide(
    action: str,
    *,
    model_type: str,
    model_id: int,
    moderator: User,
    now: datetime,
    message: DecisionMessage = NO_MESSAGE,
    may_overrule: bool = False,
) -> Decision:
    """Make a moderator's decision about a review or question: one of `EFFECTS`, or `restored`.

    Raises ContentNotFound, also for content that is down unless it is escalated or restored, ApiError 403 as
    `check_moderator` does, and Conflict where the action is impossible, and right after another decision unless
    `may_overrule`, which the API sets: its clients show no decision that could have been missed. With it, content that
    was rejected already stays as it is, and its last decision is returned.
    """
    kind = parse_kind(model_type)
    content = lock_content(kind, model_id, deleted=action in (Action.ESCALATED, Action.RESTORED))
    case = get_or_create_case(kind, content, now)
    if may_overrule and action == Action.REJECTED and case.state == Case.State.REJECTED and case.last_decision:
        return case.last_decision
    if action == Action.ESCALATED:
        _check_escalation(case)
    elif action == Action.RESTORED and case.state != Case.State.ACCEPTED:
        raise Conflict("Only content that a moderator took down and that has no open appeal can be restored.")
    elif not may_overrule:
        check_no_recent_decision(case, action, now)
    if action == Action.RESTORED:
        return restore_locked_content(action, case, content, moderator=moderator, message=message, now=now)
    reports = list(open_reports(case))
    pending = begin_decision(action, case, content, reports, moderator=moderator, message=message, now=now)
    return EFFECTS[action](pending, now)


def _accept(pending: PendingDecision, now: datetime) -> Decision:
    """Take the content down and mark its reports as accepted."""
    set_visibility(pending.content, deleted_at=now, hidden_at=None, now=now)
    open_reports(pending.case).update(status=AbuseReport.Status.ACCEPTED, updated_at=now)
    return finish_decision(pending, Case.State.ACCEPTED, now=now)


def _reject(pending: PendingDecision, now: datetime) -> Decision:
    """Keep the content, show it if it was hidden, and delete its reports."""
    _show_content(pending, now)
    open_reports(pending.case).delete()
    update_report_count(pending.case, pending.content)
    return finish_decision(pending, Case.State.REJECTED, now=now)


def _hide(pending: PendingDecision, now: datetime) -> Decision:
    """Hide reported content for now, or confirm that it was hidden automatically. The case waits on."""
    if pending.case.state != Case.State.OPEN:
        raise Conflict("Only content with open reports can be hidden for now.")
    if pending.case.is_hidden_by_moderator():
        raise Conflict("A moderator has hidden this already.")
    if pending.content.hidden_at is None:
        set_visibility(pending.content, deleted_at=None, hidden_at=now, now=now)
    is_held = pending.case.hiding == Case.Hiding.HELD  # it stays so: nobody could read it before
    return finish_decision(
        pending, Case.State.OPEN, hiding=Case.Hiding.HELD if is_held else Case.Hiding.MODERATOR, now=now
    )


def _show(pending: PendingDecision, now: datetime) -> Decision:
    """Show hidden content again. Its reports wait on, and it is never hidden automatically again."""
    if pending.content.hidden_at is None:
        raise Conflict("This is not hidden.")
    _show_content(pending, now)
    pending.case.is_cleared = True
    return finish_decision(pending, pending.case.state, now=now)


def _leave(pending: PendingDecision, now: datetime) -> Decision:
    """Leave content and reports as they are: a warning sends the reason, an escalation leaves it to a super admin."""
    return finish_decision(pending, pending.case.state, hiding=pending.case.hiding, now=now)


EFFECTS: Mapping[str, Callable[[PendingDecision, datetime], Decision]] = {
    Action.ACCEPTED: _accept,
    Action.REJECTED: _reject,
    Action.HIDDEN: _hide,
    Action.SHOWN: _show,
    Action.WARNED: _leave,
    Action.ESCALATED: _leave,
}


def _check_escalation(case: Case) -> None:
    if not case.is_waiting:
        raise Conflict("Only a case that waits for a decision can be escalated.")
    if case.is_escalated:
        raise Conflict("This is escalated already.")


def restore_locked_content(
    action: str, case: Case, content: Reportable, *, moderator: User, message: DecisionMessage, now: datetime
) -> Decision:
    """Restore content that the caller has locked, for `decide` and for overturned appeals, and delete its reports.

    Raises Conflict if its author has written another one since.
    """
    accepted = AbuseReport.objects.of(case.model_type, case.model_id).filter(status=AbuseReport.Status.ACCEPTED)
    pending = begin_decision(action, case, content, list(accepted), moderator=moderator, message=message, now=now)
    set_visibility(content, deleted_at=None, hidden_at=None, now=now)
    accepted.delete()
    update_report_count(case, content)
    return finish_decision(pending, Case.State.REJECTED, now=now)


@transaction.atomic
def delete_report(*, report_id: int, moderator: User, now: datetime) -> Decision:
    """Delete one report. Deleting the last open one closes the case and shows hidden content. Raises ApiError 404."""
    found = AbuseReport.objects.filter(pk=report_id).first()
    if found is None:
        raise ApiError(404, "There is no report with this id.")
    kind = ContentKind(found.model_type)
    content = lock_content(kind, found.model_id, deleted=True)
    report = AbuseReport.objects.filter(pk=report_id).first()
    if report is None:
        raise ApiError(404, "There is no report with this id.")
    case = get_or_create_case(kind, content, now)
    pending = begin_decision(
        Action.REPORT_DELETED, case, content, [report], moderator=moderator, message=NO_MESSAGE, now=now
    )
    report.delete()
    update_report_count(case, content)
    if case.state != Case.State.OPEN or open_reports(case).exists():
        return finish_decision(pending, case.state, hiding=case.hiding, now=now)
    _show_content(pending, now)
    return finish_decision(pending, Case.State.CLOSED, now=now)


@transaction.atomic
def claim_case(*, case_id: int, moderator: User, now: datetime) -> Case:
    """Claim a case or extend the claim, unless another moderator holds it, and return the case with its valid claim.

    A claim informs others and does not keep them from deciding. Raises ApiError 404.
    """
    case = Case.objects.select_for_update(of=("self",)).select_related("claimed_by").filter(pk=case_id).first()
    if case is None:
        raise ApiError(404, "There is no case with this id.")
    if case.claimant(now) in (None, moderator):
        case.claimed_by, case.claimed_until = moderator, now + CLAIM_LIFETIME
        case.save(update_fields=["claimed_by", "claimed_until"])
    return case


def release_case(*, case_id: int, moderator: User) -> None:
    """End this moderator's claim, if they hold it."""
    Case.objects.filter(pk=case_id, claimed_by=moderator).update(claimed_by=None, claimed_until=None)


def _show_content(pending: PendingDecision, now: datetime) -> None:
    if pending.content.hidden_at:
        set_visibility(pending.content, deleted_at=None, hidden_at=None, now=now)
        if pending.case.hiding == Case.Hiding.HELD and isinstance(pending.content, Review):
            announce_review(pending.content, now=now)  # nobody could read it before
