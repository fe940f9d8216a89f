"""Second looks: a moderator decides again about what another has decided, without seeing how."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q

from commerce.moderation.decisions import Conflict
from commerce.moderation.models import ReportReason, SecondLook
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.audit.services import record_audit_entry

MAX_SHOWN_REPORTS = 50


@dataclass(frozen=True, kw_only=True)
class BlindReport:
    """A report as it was at the decision, without its reporter."""

    message: str
    reason: ReportReason | None
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class BlindCase:
    """The content and its reports as they were before a decision, and nothing that tells the decision."""

    look: SecondLook
    content: Mapping[str, Any]
    reports: Sequence[BlindReport]
    reports_count: int


def next_blind_case(moderator: User) -> BlindCase | None:
    """Return the oldest second look that this moderator may decide, or None."""
    look = SecondLook.objects.open_for(moderator).select_related("decision__case").first()
    if look is None:
        return None
    records = look.decision.reports
    reasons = ReportReason.objects.in_bulk({pk for record in records if (pk := record.get("reason_id"))})
    reports = [
        BlindReport(
            message=record["message"],
            reason=reasons.get(record.get("reason_id")),
            created_at=datetime.fromisoformat(record["created_at"]),
        )
        for record in records[:MAX_SHOWN_REPORTS]
    ]
    return BlindCase(look=look, content=look.decision.content, reports=reports, reports_count=len(records))


@transaction.atomic
def decide_second_look(*, look_id: int, verdict: str, moderator: User, now: datetime) -> SecondLook:
    """Save a moderator's verdict. Content, reports and the decision stay as they are.

    Raises ApiError 404, 403 for an own decision and for own content, and Conflict after another moderator's verdict and
    for a decision that was undone.
    """
    rows = SecondLook.objects.select_for_update(of=("self",)).select_related("decision__case")
    look = rows.filter(pk=look_id).first()
    if look is None:
        raise ApiError(404, "There is no second look with this id.")
    if look.decision.moderator_id == moderator.pk:
        raise ApiError(403, "You decided this: another moderator takes the second look.")
    if look.decision.author_id == moderator.pk:
        raise ApiError(403, "You wrote this: another moderator takes the second look.")
    if look.decision.undone_at is not None:
        raise Conflict("The decision was undone: there is nothing to look at again.")
    if look.verdict:
        raise Conflict("A moderator has taken this second look already.")
    look.verdict, look.moderator, look.decided_at = verdict, moderator, now
    look.save()
    record_audit_entry(
        action="moderation.second_look",
        actor=moderator,
        target_type=look.decision.case.model_type,
        target_id=look.decision.case.model_id,
        details={"second_look_id": look.pk, "decision_id": look.decision_id, "verdict": verdict},
        now=now,
    )
    return look


def second_look_figures(*, now: datetime, days: int = 30) -> dict[str, int]:
    """Return how many second looks wait, and how many were `decided` and `agreed` with the decision in the last days.

    Undone decisions are not counted.
    """
    standing = SecondLook.objects.standing()
    decided = standing.filter(decided_at__gt=now - timedelta(days=days))
    agreed = Count("pk", filter=Q(verdict=F("decision__action")))
    figures = decided.aggregate(decided=Count("pk"), agreed=agreed)
    return {"waiting": standing.filter(verdict=SecondLook.Verdict.NONE).count(), **figures}
