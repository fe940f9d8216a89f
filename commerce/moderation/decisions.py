"""One decision: written down with everything as it was before, then done, and for some minutes undone again.

A decision goes through `begin`, which locks the content, and `finish`, which brings the case, the reporters, the
notices and the audit log in line with it. What happens in between is `services`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F

from commerce.moderation.cases import find_case, open_reports, recount, set_state
from commerce.moderation.models import AbuseReport, Appeal, Case, Decision, Kind, Reporter
from commerce.moderation.notices.creation import write_notices
from commerce.moderation.reportable_content import Reportable, lock_content
from commerce.reviews.models import Review
from commerce.reviews.services import set_visibility
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.audit.services import record_audit_entry

Action = Decision.Action
# In which whoever has the same item still open cannot have seen a decision, also where none can be undone.
JUST_NOW = timedelta(minutes=1)
# What a decision says about those who reported: how often they were agreed with, and how often not.
VERDICTS: Mapping[str, tuple[int, int]] = {
    Action.ACCEPTED: (1, 0),
    Action.REJECTED: (0, 1),
    Action.RESTORED: (-1, 1),
    Action.APPEAL_OVERTURNED: (-1, 1),
}


class Conflict(ApiError):
    """409: its state does not allow this, mostly as somebody else was first."""

    def __init__(self, message: str) -> None:
        super().__init__(409, message)


@dataclass(frozen=True, kw_only=True)
class Words:
    """What a moderator says with a decision: `note` to other moderators, `reason` to the author and the reporters."""

    note: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Deed:
    """A decision that is being done, its content and case locked."""

    decision: Decision
    content: Reportable
    case: Case


def case_of(kind: Kind, content: Reportable, now: datetime) -> Case:
    """The content's case; a new one where it was never reported. The content is locked."""
    return find_case(kind, content.pk) or Case.objects.create(
        model_type=kind,
        model_id=content.pk,
        author_id=content.user_id,
        shop_id=content.shop_id,
        language=content.product.language,
        created_at=now,
        updated_at=now,
    )


def begin(
    action: str,
    case: Case,
    content: Reportable,
    reports: Sequence[AbuseReport],
    *,
    moderator: User | None,
    words: Words,
    now: datetime,
) -> Deed:
    """Writes the decision down, with the reports that it is about. One by a rule cannot be undone, but decided anew."""
    decision = Decision.objects.create(
        case=case,
        author_id=content.user_id,
        action=action,
        moderator=moderator,
        note=words.note,
        reason=words.reason,
        reports=[_report_as_it_is(report) for report in reports],
        reports_count=len(reports),
        content=content_as_it_is(content),
        before=_before(case, content),
        created_at=now,
        undo_until=now + settings.MODERATION_UNDO_WINDOW if moderator else now,
    )
    return Deed(decision=decision, content=content, case=case)


def finish(deed: Deed, state: str, *, hiding: str = Case.Hiding.NONE, now: datetime) -> Decision:
    """The case as it is after the deed; who reported is judged, who is concerned is told, and it is logged."""
    case, decision = deed.case, deed.decision
    set_state(case, state)
    case.hiding, case.last_decision, case.updated_at = hiding, decision, now
    case.is_cleared = case.is_cleared or decision.action in (Action.REJECTED, Action.RESTORED, Action.APPEAL_OVERTURNED)
    recount(case)
    case.save()
    _judge(decision, *VERDICTS.get(decision.action, (0, 0)))
    write_notices(decision, deed.content)
    _log(decision, case, decision.action, decision.moderator, now)
    return decision


def take_back(decision: Decision, *, moderator: User, now: datetime) -> Decision:
    """Everything as it was before. Raises Conflict where it is too late, or something came after it."""
    case = decision.case
    content = lock_content(Kind(case.model_type), case.model_id, deleted=True)
    decision, case = Decision.objects.get(pk=decision.pk), Case.objects.get(pk=case.pk)
    _refuse_undo(decision, case, content, now)
    decision.notices.all().delete()
    decision.undone_at, decision.undone_by = now, moderator
    decision.save(update_fields=["undone_at", "undone_by"])
    _put_back_reports(decision)
    _put_back_content(decision.before["content"], case, content)
    _put_back_case(case, decision.before, now)
    agreed, disagreed = VERDICTS.get(decision.action, (0, 0))
    _judge(decision, -agreed, -disagreed)
    _log(decision, case, "undone", moderator, now)
    return decision


def refuse_second(case: Case, action: str, now: datetime) -> None:
    """Raises Conflict where somebody has just decided: as long as that can be undone, it is undone first. What a rule
    did stands in nobody's way, nor does a rejection once there are new reports."""
    last = case.last_decision
    if last is None or last.moderator_id is None:
        return
    if case.state != Case.State.REJECTED and (last.action != action or action == Action.REJECTED):
        return
    if last.can_be_undone(now):
        raise Conflict("This was decided a moment ago: undo that decision to make another.")
    if now < last.created_at + JUST_NOW:
        raise Conflict("This was decided a moment ago: look at it again, and decide anew in a minute.")


def content_as_it_is(content: Reportable) -> dict[str, Any]:
    """What people read, as a decision and the audit log keep it."""
    common = {"user_id": content.user_id, "product_id": content.product_id, "product": content.product.name}
    if isinstance(content, Review):
        photos = list(content.photos.order_by("pk").values_list("pk", flat=True))
        return common | {"comment": content.comment, "rating": content.rating, "photos": photos}
    return common | {"question": content.question, "answer": content.answer}


def _report_as_it_is(report: AbuseReport) -> dict[str, Any]:
    names = ("id", "user_id", "message", "status", "weight", "standing")
    times = {"created_at": report.created_at.isoformat(), "updated_at": report.updated_at.isoformat()}
    return {name: getattr(report, name) for name in names} | times


def _before(case: Case, content: Reportable) -> dict[str, Any]:
    times = {name: getattr(content, name) for name in ("deleted_at", "hidden_at", "updated_at")}
    return {
        "content": {name: at.isoformat() if at else None for name, at in times.items()},
        "state": case.state,
        "hiding": case.hiding,
        "is_cleared": case.is_cleared,
        "last_decision_id": case.last_decision_id,
    }


def _refuse_undo(decision: Decision, case: Case, content: Reportable, now: datetime) -> None:
    # Locked: whoever sends the letters takes them by the same rows, and of what is on its way nothing is taken back.
    notices = list(decision.notices.select_for_update().order_by("pk"))
    is_told = any(notice.mail_attempts for notice in notices) or Appeal.objects.filter(decision=decision).exists()
    if is_told or not decision.can_be_undone(now):
        raise Conflict("This decision can no longer be undone.")
    if case.last_decision_id != decision.pk:
        raise Conflict("Something was decided after it: undo that first.")
    if decision.before["content"]["deleted_at"] and open_reports(case).exists():
        raise Conflict("It was reported again since: decide about that.")  # nobody can about what is down
    known = (None, decision.created_at, _time(decision.before["content"]["deleted_at"]))
    if content.deleted_at not in known:
        raise Conflict("Its author has taken it back since.")


def _put_back_reports(decision: Decision) -> None:
    """As they were. A deleted one of a user who has reported the same again since stays away for that one."""
    case, was = decision.case, {report["id"]: report for report in decision.reports}
    there = AbuseReport.objects.in_bulk(list(was))
    for pk, report in there.items():
        report.status, report.updated_at = was[pk]["status"], datetime.fromisoformat(was[pk]["updated_at"])
    AbuseReport.objects.bulk_update(there.values(), ["status", "updated_at"], batch_size=500)
    deleted = [
        AbuseReport(
            **report
            | {name: datetime.fromisoformat(report[name]) for name in ("created_at", "updated_at")}
            | {"model_type": case.model_type, "model_id": case.model_id}
        )
        for pk, report in was.items()
        if pk not in there
    ]
    AbuseReport.objects.bulk_create(deleted, ignore_conflicts=True)


def _put_back_content(before: Mapping[str, Any], case: Case, content: Reportable) -> None:
    deleted_at, hidden_at = _time(before["deleted_at"]), _time(before["hidden_at"])
    if (content.deleted_at, content.hidden_at) != (deleted_at, hidden_at):
        updated_at = datetime.fromisoformat(before["updated_at"])
        set_visibility(content, deleted_at=deleted_at, hidden_at=hidden_at, now=updated_at)
    count_reports(case, content)


def _put_back_case(case: Case, before: Mapping[str, Any], now: datetime) -> None:
    """What was reported, or appealed against, since still waits."""
    case.appeals.filter(result=case.last_decision).update(status=Appeal.Status.OPEN, result=None, decided_at=None)
    if case.appeals.filter(status=Appeal.Status.OPEN).exists():
        set_state(case, Case.State.APPEALED)
    else:
        set_state(case, Case.State.OPEN if open_reports(case).exists() else before["state"])
    case.hiding, case.is_cleared = before["hiding"], before["is_cleared"]
    case.last_decision_id, case.updated_at = before["last_decision_id"], now
    recount(case)
    case.save()


def count_reports(case: Case, content: Reportable) -> None:
    """The number that the content's record shows."""
    content.abusive_reports_count = AbuseReport.objects.of(case.model_type, case.model_id).count()
    content.save(update_fields=["abusive_reports_count"])


def _judge(decision: Decision, agreed: int, disagreed: int) -> None:
    """Adds a verdict to the figures of those who reported, or with a minus takes one back."""
    user_ids = sorted({report["user_id"] for report in decision.reports})
    if not user_ids or not (agreed or disagreed):
        return
    Reporter.objects.bulk_create([Reporter(user_id=user_id) for user_id in user_ids], ignore_conflicts=True)
    reporters = Reporter.objects.filter(user_id__in=user_ids)
    list(reporters.order_by("user_id").select_for_update())  # in one order for everybody, so that none waits for ever
    reporters.update(agreed=F("agreed") + agreed, disagreed=F("disagreed") + disagreed)


def _log(decision: Decision, case: Case, what: str, actor: User | None, now: datetime) -> None:
    record_audit_entry(
        action=f"moderation.{what}",
        actor=actor,
        target_type=case.model_type,
        target_id=case.model_id,
        details={
            "decision_id": decision.pk,
            "decision": decision.action,
            "note": decision.note,
            "reason": decision.reason,
            "content": decision.content,
            "reports_count": decision.reports_count,
            "reports": decision.reports,
        },
        now=now,
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
