"""Reports, decisions on cases, and claims. Each function is one transaction that locks the content first.

Of several concurrent decisions on the same content, one succeeds.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F

from commerce.moderation.cases import add_report, find_case, open_reports
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
from commerce.moderation.trust import report_standing
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
def accept_report(
    *,
    model_type: str,
    model_id: int,
    moderator: User,
    now: datetime,
    message: DecisionMessage = NO_MESSAGE,
    may_overrule: bool = False,
) -> Decision:
    """Take the content down and mark its reports as accepted.

    Raises ContentNotFound, also for content that is down already, and Conflict right after another decision unless
    `may_overrule`, which the API sets: its clients show no decision that could have been missed.
    """
    pending = _begin(Action.ACCEPTED, model_type, model_id, moderator, now, message, may_overrule=may_overrule)
    set_visibility(pending.content, deleted_at=now, hidden_at=None, now=now)
    open_reports(pending.case).update(status=AbuseReport.Status.ACCEPTED, updated_at=now)
    return finish_decision(pending, Case.State.ACCEPTED, now=now)


@transaction.atomic
def reject_report(
    *,
    model_type: str,
    model_id: int,
    moderator: User,
    now: datetime,
    message: DecisionMessage = NO_MESSAGE,
    may_overrule: bool = False,
) -> Decision:
    """Keep the content, show it if it was hidden, and delete its reports. Raises the errors of `accept_report`.

    With `may_overrule`, content that was rejected already stays as it is, and its last decision is returned.
    """
    if may_overrule and (made := _find_standing_rejection(model_type, model_id)):
        return made
    pending = _begin(Action.REJECTED, model_type, model_id, moderator, now, message, may_overrule=may_overrule)
    _show(pending, now)
    open_reports(pending.case).delete()
    update_report_count(pending.case, pending.content)
    return finish_decision(pending, Case.State.REJECTED, now=now)


@transaction.atomic
def hide_content(
    *, model_type: str, model_id: int, moderator: User, now: datetime, message: DecisionMessage = NO_MESSAGE
) -> Decision:
    """Hide reported content for now, or confirm that it was hidden automatically. The case waits on.

    Raises ContentNotFound, and Conflict if a moderator hid it before or no report is open.
    """
    pending = _begin(Action.HIDDEN, model_type, model_id, moderator, now, message)
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


@transaction.atomic
def show_content(
    *, model_type: str, model_id: int, moderator: User, now: datetime, message: DecisionMessage = NO_MESSAGE
) -> Decision:
    """Show hidden content again. Its reports wait on, and it is never hidden automatically again.

    Raises ContentNotFound, and Conflict if it is not hidden.
    """
    pending = _begin(Action.SHOWN, model_type, model_id, moderator, now, message)
    if pending.content.hidden_at is None:
        raise Conflict("This is not hidden.")
    _show(pending, now)
    pending.case.is_cleared = True
    return finish_decision(pending, pending.case.state, now=now)


@transaction.atomic
def warn_author(
    *, model_type: str, model_id: int, moderator: User, now: datetime, message: DecisionMessage = NO_MESSAGE
) -> Decision:
    """Send `message.reason` to the author; content and reports stay as they are.

    Raises ContentNotFound, and Conflict right after another warning.
    """
    pending = _begin(Action.WARNED, model_type, model_id, moderator, now, message)
    return finish_decision(pending, pending.case.state, hiding=pending.case.hiding, now=now)


@transaction.atomic
def escalate_case(
    *, model_type: str, model_id: int, moderator: User, now: datetime, message: DecisionMessage = NO_MESSAGE
) -> Decision:
    """Leave a case to a super admin; it waits on, and other moderators can no longer decide about it.

    Raises ContentNotFound, and Conflict for a case that does not wait or is escalated already.
    """
    kind = parse_kind(model_type)
    content = lock_content(kind, model_id, deleted=True)
    case = get_or_create_case(kind, content, now)
    if not case.is_waiting:
        raise Conflict("Only a case that waits for a decision can be escalated.")
    if case.is_escalated:
        raise Conflict("This is escalated already.")
    reports = list(open_reports(case))
    pending = begin_decision(Action.ESCALATED, case, content, reports, moderator=moderator, message=message, now=now)
    return finish_decision(pending, case.state, hiding=case.hiding, now=now)


@transaction.atomic
def restore_content(
    *, model_type: str, model_id: int, moderator: User, now: datetime, message: DecisionMessage = NO_MESSAGE
) -> Decision:
    """Restore content that was taken down at any time, and delete its accepted reports.

    Raises ContentNotFound, and Conflict if no moderator took it down or its author has written another one since.
    """
    kind = parse_kind(model_type)
    content = lock_content(kind, model_id, deleted=True)
    case = get_or_create_case(kind, content, now)
    if case.state != Case.State.ACCEPTED:
        raise Conflict("Only content that a moderator took down and that has no open appeal can be restored.")
    check_no_recent_decision(case, Action.RESTORED, now)
    return restore_locked_content(Action.RESTORED, case, content, moderator=moderator, message=message, now=now)


def restore_locked_content(
    action: str, case: Case, content: Reportable, *, moderator: User, message: DecisionMessage, now: datetime
) -> Decision:
    """Restore content that the caller has locked, for `restore_content` and for overturned appeals."""
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
    _show(pending, now)
    return finish_decision(pending, Case.State.CLOSED, now=now)


@dataclass(frozen=True, kw_only=True)
class CaseClaim:
    """A moderator who has a case open, and the time when the claim expires."""

    moderator: User
    until: datetime


@transaction.atomic
def claim_case(*, case_id: int, moderator: User, now: datetime) -> CaseClaim:
    """Claim a case or extend the claim, unless another moderator holds it, and return the claim that is valid.

    A claim informs others and does not keep them from deciding. Raises ApiError 404.
    """
    case = Case.objects.select_for_update(of=("self",)).select_related("claimed_by").filter(pk=case_id).first()
    if case is None:
        raise ApiError(404, "There is no case with this id.")
    other = case.claimant(now)
    if other is not None and other != moderator and case.claimed_until is not None:
        return CaseClaim(moderator=other, until=case.claimed_until)
    case.claimed_by, case.claimed_until = moderator, now + CLAIM_LIFETIME
    case.save(update_fields=["claimed_by", "claimed_until"])
    return CaseClaim(moderator=moderator, until=case.claimed_until)


def release_case(*, case_id: int, moderator: User) -> None:
    """End this moderator's claim, if they hold it."""
    Case.objects.filter(pk=case_id, claimed_by=moderator).update(claimed_by=None, claimed_until=None)


def _find_standing_rejection(model_type: str, model_id: int) -> Decision | None:
    """Return the last decision of locked content whose reports were rejected and that nobody has reported since."""
    kind = parse_kind(model_type)
    lock_content(kind, model_id)
    case = find_case(kind, model_id)
    return case.last_decision if case is not None and case.state == Case.State.REJECTED else None


def _begin(
    action: str,
    model_type: str,
    model_id: int,
    moderator: User,
    now: datetime,
    message: DecisionMessage,
    *,
    may_overrule: bool = False,
) -> PendingDecision:
    kind = parse_kind(model_type)
    content = lock_content(kind, model_id)
    case = get_or_create_case(kind, content, now)
    if not may_overrule:
        check_no_recent_decision(case, action, now)
    reports = list(open_reports(case))
    return begin_decision(action, case, content, reports, moderator=moderator, message=message, now=now)


def _show(pending: PendingDecision, now: datetime) -> None:
    if pending.content.hidden_at:
        set_visibility(pending.content, deleted_at=None, hidden_at=None, now=now)
        if pending.case.hiding == Case.Hiding.HELD and isinstance(pending.content, Review):
            announce_review(pending.content, now=now)  # nobody could read it before
