"""Undo of a decision: everything is as it was before, within STOA_MODERATION_UNDO_MINUTES."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from commerce.moderation.cases import open_reports, recount, set_state
from commerce.moderation.decisions import (
    REPORTER_VERDICTS,
    Conflict,
    add_verdict,
    check_moderator,
    log_decision,
    update_report_count,
)
from commerce.moderation.models import Appeal, Case, ContentKind, Decision
from commerce.moderation.models.snapshots import restore_case, restore_reports
from commerce.moderation.reportable_content import Reportable, lock_content
from commerce.reviews.services import set_visibility
from commerce.webhooks.events import announce_decision
from shared.accounts.models import User
from shared.api.errors import ApiError


@transaction.atomic
def undo_decision(*, decision_id: int, moderator: User, now: datetime) -> Decision:
    """Restore reports, case, content and reporters as they were before a decision.

    Raises ApiError 404, 403 for what is left to others than this moderator, and Conflict if it is too late, a later
    decision exists or the author has acted since.
    """
    found = Decision.objects.select_related("case").filter(pk=decision_id).first()
    if found is None:
        raise ApiError(404, "There is no decision with this id.")
    content = lock_content(ContentKind(found.case.model_type), found.case.model_id, deleted=True)
    decision = Decision.objects.select_related("case").get(pk=decision_id)
    if moderator.pk != decision.moderator_id or decision.action != Decision.Action.ESCALATED:
        check_moderator(decision.case, moderator)  # one's own escalation may be taken back
    _check_undo(decision, content, now)
    decision.notices.all().delete()
    decision.undone_at, decision.undone_by = now, moderator
    decision.save(update_fields=["undone_at", "undone_by"])
    restore_reports(decision)
    _restore_content(decision, content)
    _restore_case(decision, now)
    agreed, disagreed = REPORTER_VERDICTS.get(decision.action, (0, 0))
    add_verdict(decision, -agreed, -disagreed)
    announce_decision(decision, content, now=now, is_undone=True)
    log_decision(decision, "undone", moderator, now)
    return decision


def _check_undo(decision: Decision, content: Reportable, now: datetime) -> None:
    # The delivery of e-mails locks the same rows: once one was attempted, the decision stays.
    notices = list(decision.notices.select_for_update().order_by("pk"))
    is_announced = any(notice.mail_attempts for notice in notices) or Appeal.objects.filter(decision=decision).exists()
    if is_announced or not decision.can_be_undone(now):
        raise Conflict("This decision can no longer be undone.")
    case, before = decision.case, decision.before["content"]
    if case.last_decision_id != decision.pk:
        raise Conflict("There is a later decision: undo that one first.")
    if before["deleted_at"] and open_reports(case).exists():
        raise Conflict("It was reported again since: decide on the new report.")  # deleted content cannot be decided on
    if content.deleted_at not in (None, decision.created_at, _parse_time(before["deleted_at"])):
        raise Conflict("Its author has deleted it since.")


def _restore_content(decision: Decision, content: Reportable) -> None:
    times: Mapping[str, Any] = {name: _parse_time(text) for name, text in decision.before["content"].items()}
    if (content.deleted_at, content.hidden_at) != (times["deleted_at"], times["hidden_at"]):
        set_visibility(content, deleted_at=times["deleted_at"], hidden_at=times["hidden_at"], now=times["updated_at"])
    update_report_count(decision.case, content)


def _restore_case(decision: Decision, now: datetime) -> None:
    """Restore and save the case. It waits if it has open reports or an open appeal, whatever its state was."""
    case = decision.case
    case.appeals.filter(result=decision).update(status=Appeal.Status.OPEN, result=None, decided_at=None)
    restore_case(case, decision.before)
    if case.appeals.filter(status=Appeal.Status.OPEN).exists():
        set_state(case, Case.State.APPEALED)
    else:
        set_state(case, Case.State.OPEN if open_reports(case).exists() else case.state)
    case.updated_at = now
    recount(case)
    case.save()


def _parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
