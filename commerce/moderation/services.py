"""Every write to abuse reports and cases: reporting, deciding, hiding, undoing, claiming.

Each is one transaction that locks the content first, so that of many decisions on it at once one counts.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F

from commerce.moderation.cases import count_report, open_reports
from commerce.moderation.decisions import (
    Action,
    Conflict,
    Deed,
    Words,
    begin,
    case_of,
    count_reports,
    finish,
    refuse_second,
    take_back,
)
from commerce.moderation.models import AbuseReport, Case, Decision, Kind, Reporter
from commerce.moderation.reportable_content import TARGETS, ContentNotFound, Reportable, kind_of, lock_content
from commerce.moderation.trust import standing, weight
from commerce.reviews.services import set_visibility
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.errors import ApiError

CLAIM_FOR = timedelta(minutes=5)
NOTHING_SAID = Words()


@transaction.atomic
def file_report(*, user: User, model_type: str, model_id: int, message: str, now: datetime) -> AbuseReport:
    """One user's report of what others can see; with it, enough trusted reporters may hide the content. `model_type` in
    either spelling. Raises ContentNotFound, and ApiError 409 when this user has reported it before."""
    kind = kind_of(model_type)
    content = lock_content(kind, model_id)
    if content.hidden_at:
        raise ContentNotFound
    report = _report_by(user, content, now)
    report.model_type, report.model_id, report.message = kind, model_id, message
    try:
        with transaction.atomic():
            report.save()
    except IntegrityError:
        raise ApiError(409, "You have reported this already.") from None
    TARGETS[kind]._default_manager.filter(pk=model_id).update(abusive_reports_count=F("abusive_reports_count") + 1)
    content.abusive_reports_count += 1
    _hide_if_due(count_report(case_of(kind, content, now), report, now=now), content, now)
    return report


def _report_by(user: User, content: Reportable, now: datetime) -> AbuseReport:
    """A report by this user, with how far it is believed."""
    known = Reporter.objects.filter(user=user).first() or Reporter(user=user)
    weighs = weight(agreed=known.agreed, disagreed=known.disagreed)
    is_involved = content.user_id == user.pk or Shop.objects.for_user(user).filter(pk=content.shop_id).exists()
    stands = standing(weight=weighs, account_age=now - user.created_at, is_involved=is_involved)
    return AbuseReport(user=user, weight=weighs, standing=stands, created_at=now, updated_at=now)


def _hide_if_due(case: Case, content: Reportable, now: datetime) -> None:
    """Once enough trusted people have reported what no moderator has cleared. A moderator confirms or shows it."""
    enough = settings.MODERATION_AUTO_HIDE_AFTER
    if not enough or case.is_cleared or case.trusted_count < enough:
        return
    counted = open_reports(case).filter(standing=AbuseReport.Standing.TRUSTED)
    deed = begin(Action.HIDDEN, case, content, list(counted), moderator=None, words=NOTHING_SAID, now=now)
    set_visibility(content, deleted_at=None, hidden_at=now, now=now)
    finish(deed, Case.State.OPEN, hiding=Case.Hiding.AUTOMATIC, now=now)


@transaction.atomic
def accept_report(
    *, model_type: str, model_id: int, moderator: User, now: datetime, words: Words = NOTHING_SAID
) -> Decision:
    """Takes the content down: it leaves lists and ratings, its reports stay as accepted. Raises ContentNotFound, also
    for what is taken down already, and Conflict right after another decision."""
    deed = _begin(Action.ACCEPTED, model_type, model_id, moderator, now, words)
    set_visibility(deed.content, deleted_at=now, hidden_at=None, now=now)
    open_reports(deed.case).update(status=AbuseReport.Status.ACCEPTED, updated_at=now)
    return finish(deed, Case.State.ACCEPTED, now=now)


@transaction.atomic
def reject_report(
    *, model_type: str, model_id: int, moderator: User, now: datetime, words: Words = NOTHING_SAID
) -> Decision:
    """Keeps the content, shown again where it was hidden, and deletes its reports. Raises as accept_report does."""
    deed = _begin(Action.REJECTED, model_type, model_id, moderator, now, words)
    _show(deed, now)
    open_reports(deed.case).delete()
    count_reports(deed.case, deed.content)
    return finish(deed, Case.State.REJECTED, now=now)


@transaction.atomic
def hide_content(
    *, model_type: str, model_id: int, moderator: User, now: datetime, words: Words = NOTHING_SAID
) -> Decision:
    """Hides reported content for now; it waits on. Of what was hidden on its own it says that a moderator agrees.
    Raises ContentNotFound, and Conflict where a moderator hid it before, or nothing waits."""
    deed = _begin(Action.HIDDEN, model_type, model_id, moderator, now, words)
    if deed.case.state != Case.State.OPEN:
        raise Conflict("Nobody has reported this, or it was decided: only what waits is hidden for now.")
    if deed.case.hiding == Case.Hiding.MODERATOR:
        raise Conflict("A moderator has hidden this already.")
    if deed.content.hidden_at is None:
        set_visibility(deed.content, deleted_at=None, hidden_at=now, now=now)
    return finish(deed, Case.State.OPEN, hiding=Case.Hiding.MODERATOR, now=now)


@transaction.atomic
def show_content(
    *, model_type: str, model_id: int, moderator: User, now: datetime, words: Words = NOTHING_SAID
) -> Decision:
    """Shows hidden content again; its reports wait on, and it is not hidden on its own any more. Raises
    ContentNotFound, and Conflict where it is not hidden."""
    deed = _begin(Action.SHOWN, model_type, model_id, moderator, now, words)
    if deed.content.hidden_at is None:
        raise Conflict("This is not hidden.")
    _show(deed, now)
    deed.case.is_cleared = True
    return finish(deed, deed.case.state, now=now)


@transaction.atomic
def warn_author(
    *, model_type: str, model_id: int, moderator: User, now: datetime, words: Words = NOTHING_SAID
) -> Decision:
    """Tells the author, by `words.reason`; the content and its reports stay as they are. Raises ContentNotFound, and
    Conflict right after another warning."""
    deed = _begin(Action.WARNED, model_type, model_id, moderator, now, words)
    return finish(deed, deed.case.state, hiding=deed.case.hiding, now=now)


@transaction.atomic
def restore_content(
    *, model_type: str, model_id: int, moderator: User, now: datetime, words: Words = NOTHING_SAID
) -> Decision:
    """Brings back what was taken down, however long ago, and deletes the reports that had been accepted. Raises
    ContentNotFound, and Conflict for what no moderator took down, or where the author has written another since."""
    kind = kind_of(model_type)
    content = lock_content(kind, model_id, deleted=True)
    case = case_of(kind, content, now)
    if case.state != Case.State.ACCEPTED:
        raise Conflict("Only what a moderator took down, and nobody appealed against, can be restored.")
    refuse_second(case, Action.RESTORED, now)
    return restore(Action.RESTORED, case, content, moderator=moderator, words=words, now=now)


def restore(action: str, case: Case, content: Reportable, *, moderator: User, words: Words, now: datetime) -> Decision:
    """The rest of `restore_content`, and of an appeal that is won. The content is locked."""
    accepted = AbuseReport.objects.of(case.model_type, case.model_id).filter(status=AbuseReport.Status.ACCEPTED)
    deed = begin(action, case, content, list(accepted), moderator=moderator, words=words, now=now)
    set_visibility(content, deleted_at=None, hidden_at=None, now=now)
    accepted.delete()
    count_reports(case, content)
    return finish(deed, Case.State.REJECTED, now=now)


@transaction.atomic
def delete_report(*, report_id: int, moderator: User, now: datetime) -> Decision:
    """Deletes one report. With the last open one the case leaves the queue, and what was hidden for it is shown. Raises
    ApiError 404."""
    found = AbuseReport.objects.filter(pk=report_id).first()
    if found is None:
        raise ApiError(404, "There is no report with this id.")
    kind = Kind(found.model_type)
    content = lock_content(kind, found.model_id, deleted=True)
    report = AbuseReport.objects.filter(pk=report_id).first()
    if report is None:
        raise ApiError(404, "There is no report with this id.")
    case = case_of(kind, content, now)
    deed = begin(Action.REPORT_DELETED, case, content, [report], moderator=moderator, words=NOTHING_SAID, now=now)
    report.delete()
    count_reports(case, content)
    if case.state != Case.State.OPEN or open_reports(case).exists():
        return finish(deed, case.state, hiding=case.hiding, now=now)
    _show(deed, now)
    return finish(deed, Case.State.CLOSED, now=now)


@transaction.atomic
def undo_decision(*, decision_id: int, moderator: User, now: datetime) -> Decision:
    """Everything as it was before the decision, within STOA_MODERATION_UNDO_MINUTES of it. Raises ApiError 404, and
    Conflict where it is too late, something was decided after it, or the author has acted since."""
    decision = Decision.objects.select_related("case").filter(pk=decision_id).first()
    if decision is None:
        raise ApiError(404, "There is no decision with this id.")
    return take_back(decision, moderator=moderator, now=now)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Who looks at a case now, and until when they are taken to."""

    moderator: User
    until: datetime


@transaction.atomic
def claim_case(*, case_id: int, moderator: User, now: datetime) -> Claim:
    """Says that this moderator looks at the case, or goes on to, unless another does. Answers whose it is: a claim
    tells, and does not keep others from deciding. Raises ApiError 404."""
    case = Case.objects.select_for_update(of=("self",)).select_related("claimed_by").filter(pk=case_id).first()
    if case is None:
        raise ApiError(404, "There is no case with this id.")
    other = case.claimant(now)
    if other is not None and other != moderator and case.claimed_until is not None:
        return Claim(moderator=other, until=case.claimed_until)
    case.claimed_by, case.claimed_until = moderator, now + CLAIM_FOR
    case.save(update_fields=["claimed_by", "claimed_until"])
    return Claim(moderator=moderator, until=case.claimed_until)


def release_case(*, case_id: int, moderator: User) -> None:
    """Ends this moderator's claim, if it is theirs."""
    Case.objects.filter(pk=case_id, claimed_by=moderator).update(claimed_by=None, claimed_until=None)


def _begin(action: str, model_type: str, model_id: int, moderator: User, now: datetime, words: Words) -> Deed:
    kind = kind_of(model_type)
    content = lock_content(kind, model_id)
    case = case_of(kind, content, now)
    refuse_second(case, action, now)
    return begin(action, case, content, list(open_reports(case)), moderator=moderator, words=words, now=now)


def _show(deed: Deed, now: datetime) -> None:
    if deed.content.hidden_at:
        set_visibility(deed.content, deleted_at=None, hidden_at=None, now=now)
