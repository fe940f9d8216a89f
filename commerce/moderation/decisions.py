"""Decisions: recorded with the state before them, executed, and applied to the case, the reporters and the notices.

Each decision goes through `begin_decision`, the change that `services` and `appeals` make, and `finish_decision`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F

from commerce.moderation.cases import find_case, recount, set_state
from commerce.moderation.models import AbuseReport, Case, ContentKind, Decision, Reporter, SecondLook
from commerce.moderation.models.reasons import fill_placeholders
from commerce.moderation.models.snapshots import content_record, report_record, state_record
from commerce.moderation.notices.creation import create_notices
from commerce.moderation.reportable_content import Reportable
from commerce.webhooks.events import announce_decision
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError
from shared.audit.services import record_audit_entry

Action = Decision.Action
# Another moderator who has the same case open cannot have seen a younger decision yet.
MIN_DECISION_INTERVAL = timedelta(minutes=1)
# Action -> what it adds to (agreed, disagreed) of each reporter.
REPORTER_VERDICTS: Mapping[str, tuple[int, int]] = {
    Action.ACCEPTED: (1, 0),
    Action.REJECTED: (0, 1),
    Action.RESTORED: (-1, 1),
    Action.APPEAL_OVERTURNED: (-1, 1),
}


class Conflict(ApiError):
    """409: the state of the case does not allow this, usually because another moderator was first."""

    def __init__(self, message: str) -> None:
        super().__init__(409, message)


@dataclass(frozen=True, kw_only=True)
class DecisionMessage:
    """The texts of a decision: `note` for other moderators, `reason` for the author and the reporters.

    With `is_template`, the reason has placeholders.
    """

    note: str = ""
    reason: str = ""
    is_template: bool = False

    def reason_about(self, content: Reportable) -> str:
        """Return the reason, with its placeholders filled for this content."""
        if not self.is_template:
            return self.reason
        values = {
            "product": content.product.name,
            "shop": content.shop.name,
            "appeal_days": str(settings.MODERATION_APPEAL_WINDOW.days),
        }
        return fill_placeholders(self.reason, values)


NO_MESSAGE = DecisionMessage()


@dataclass(frozen=True, kw_only=True)
class PendingDecision:
    """A recorded decision that is being executed, with its locked content and case."""

    decision: Decision
    content: Reportable
    case: Case


def get_or_create_case(kind: ContentKind, content: Reportable, now: datetime) -> Case:
    """Return the case of locked content, a new one if nobody has reported it."""
    return find_case(kind, content.pk) or Case.objects.create(
        model_type=kind,
        model_id=content.pk,
        author_id=content.user_id,
        shop_id=content.shop_id,
        language=content.product.language,
        created_at=now,
        updated_at=now,
    )


def check_moderator(case: Case, moderator: User, action: str = "") -> None:
    """Raise ApiError 403 for what is left to others than this moderator. A super admin may decide about everything.

    Moderators decide neither about what they wrote, which they may escalate, nor about an escalated case, also after a
    super admin has decided about it.
    """
    if moderator.role == Role.SUPER_ADMIN:
        return
    if case.author_id == moderator.pk and action != Action.ESCALATED:
        raise ApiError(403, "You wrote this: another moderator decides about it.")
    last = None if case.is_waiting else case.last_decision
    if case.is_escalated or (last and last.before.get("is_escalated")):
        raise ApiError(403, "This was escalated: a super admin decides about it.")


def begin_decision(
    action: str,
    case: Case,
    content: Reportable,
    reports: Sequence[AbuseReport],
    *,
    moderator: User | None,
    message: DecisionMessage,
    now: datetime,
) -> PendingDecision:
    """Record a decision with its reports. One without a moderator was made by a rule and cannot be undone.

    Raises ApiError 403 as `check_moderator` does.
    """
    if moderator is not None:
        check_moderator(case, moderator, action)
    decision = Decision.objects.create(
        case=case,
        author_id=content.user_id,
        action=action,
        moderator=moderator,
        note=message.note,
        reason=message.reason_about(content),
        reports=[report_record(report) for report in reports],
        reports_count=len(reports),
        content=content_record(content),
        before=state_record(case, content),
        created_at=now,
        undo_until=now + settings.MODERATION_UNDO_WINDOW if moderator else now,
    )
    return PendingDecision(decision=decision, content=content, case=case)


def finish_decision(pending: PendingDecision, state: str, *, hiding: str = Case.Hiding.NONE, now: datetime) -> Decision:
    """Save the case in its new state, update the reporters, create the notices and write to the audit log.

    A sampled decision gets a second look.
    """
    case, decision = pending.case, pending.decision
    set_state(case, state)
    case.is_escalated = case.is_waiting and (case.is_escalated or decision.action == Action.ESCALATED)
    case.hiding, case.last_decision, case.updated_at = hiding, decision, now
    case.is_cleared = case.is_cleared or decision.action in (Action.REJECTED, Action.RESTORED, Action.APPEAL_OVERTURNED)
    recount(case)
    case.save()
    add_verdict(decision, *REPORTER_VERDICTS.get(decision.action, (0, 0)))
    SecondLook.objects.sample(decision)
    create_notices(decision, pending.content)
    announce_decision(decision, pending.content, now=now)
    log_decision(decision, decision.action, decision.moderator, now)
    return decision


def check_no_recent_decision(case: Case, action: str, now: datetime) -> None:
    """Raise Conflict while a moderator's last decision can be undone, or is younger than MIN_DECISION_INTERVAL.

    Decisions of rules never block another one, nor does a rejection after which new reports came in.
    """
    last = case.last_decision
    if last is None or last.moderator_id is None:
        return
    if case.state != Case.State.REJECTED and (last.action != action or action == Action.REJECTED):
        return
    if last.can_be_undone(now):
        raise Conflict("This was decided a moment ago: undo that decision to make another.")
    if now < last.created_at + MIN_DECISION_INTERVAL:
        raise Conflict("This was decided a moment ago: read it again and decide in a minute.")


def update_report_count(case: Case, content: Reportable) -> None:
    """Save the number of reports on the content, which shops read."""
    content.abusive_reports_count = AbuseReport.objects.of(case.model_type, case.model_id).count()
    content.save(update_fields=["abusive_reports_count"])


def add_verdict(decision: Decision, agreed: int, disagreed: int) -> None:
    """Add to the counts of the decision's reporters; negative numbers take a verdict back."""
    user_ids = sorted({report["user_id"] for report in decision.reports})
    if not user_ids or not (agreed or disagreed):
        return
    Reporter.objects.bulk_create([Reporter(user_id=user_id) for user_id in user_ids], ignore_conflicts=True)
    reporters = Reporter.objects.filter(user_id__in=user_ids)
    list(reporters.order_by("user_id").select_for_update())  # in one order everywhere, against deadlocks
    reporters.update(agreed=F("agreed") + agreed, disagreed=F("disagreed") + disagreed)


def log_decision(decision: Decision, event: str, actor: User | None, now: datetime) -> None:
    """Write `moderation.<event>` with the whole decision to the audit log."""
    record_audit_entry(
        action=f"moderation.{event}",
        actor=actor,
        target_type=decision.case.model_type,
        target_id=decision.case.model_id,
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
