"""Appeals of authors against removals: filing one returns the case to the queue."""

from datetime import datetime

from django.db import IntegrityError, transaction

from commerce.moderation.cases import recount, set_state
from commerce.moderation.decisions import (
    NO_MESSAGE,
    Action,
    Conflict,
    DecisionMessage,
    begin_decision,
    finish_decision,
    get_or_create_case,
)
from commerce.moderation.models import Appeal, Case, ContentKind, Decision, Notice
from commerce.moderation.reportable_content import lock_content
from commerce.moderation.services import restore_locked_content
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.audit.services import record_audit_entry


@transaction.atomic
def file_appeal(*, author: User, notice_id: int, message: str, now: datetime) -> Appeal:
    """Create an appeal against the removal that one of the author's notices reports.

    Raises ApiError 404 for a notice of somebody else. Raises Conflict if the notice reports no removal or its
    `appeal_until` has passed, after another appeal, and after a later decision.
    """
    notice = Notice.objects.for_user(author, now).select_related("decision__case").filter(pk=notice_id).first()
    if notice is None:
        raise ApiError(404, "You have no notice with this id.")
    if notice.decision is None or notice.appeal_until is None or now >= notice.appeal_until:
        raise Conflict("You can appeal against a removal only, until the appeal_until of its notice.")
    kind, model_id = ContentKind(notice.decision.case.model_type), notice.decision.case.model_id
    case = get_or_create_case(kind, lock_content(kind, model_id, deleted=True), now)
    try:
        with transaction.atomic():
            appeal = Appeal.objects.create(
                case=case, decision=notice.decision, author=author, message=message, created_at=now
            )
    except IntegrityError:
        raise Conflict("You have appealed against this already.") from None
    removal = case.decisions.filter(action=Action.ACCEPTED, undone_at=None).order_by("-id").first()
    if case.state != Case.State.ACCEPTED or removal != notice.decision:
        raise Conflict("There is a later decision about this.")
    set_state(case, Case.State.APPEALED)
    case.updated_at = now
    recount(case)
    case.save()
    details = {"appeal_id": appeal.pk, "decision_id": notice.decision_id, "message": message}
    record_audit_entry(
        action="moderation.appealed", actor=author, target_type=kind, target_id=model_id, details=details, now=now
    )  # fmt: skip
    return appeal


@transaction.atomic
def decide_appeal(
    *, appeal_id: int, overturn: bool, moderator: User, now: datetime, message: DecisionMessage = NO_MESSAGE
) -> Decision:
    """Keep the content down, or with `overturn` restore it and take back the verdict on its reporters.

    Raises ApiError 404, and Conflict if the appeal is decided or the author has written another review since.
    """
    found = Appeal.objects.select_related("case").filter(pk=appeal_id).first()
    if found is None:
        raise ApiError(404, "There is no appeal with this id.")
    kind = ContentKind(found.case.model_type)
    content = lock_content(kind, found.case.model_id, deleted=True)
    appeal, case = Appeal.objects.get(pk=appeal_id), Case.objects.get(pk=found.case_id)
    if appeal.status != Appeal.Status.OPEN:
        raise Conflict("This appeal is decided already.")
    appeal.status = Appeal.Status.OVERTURNED if overturn else Appeal.Status.KEPT
    if overturn:
        decision = restore_locked_content(
            Action.APPEAL_OVERTURNED, case, content, moderator=moderator, message=message, now=now
        )
    else:
        pending = begin_decision(
            Action.APPEAL_KEPT, case, content, [], moderator=moderator, message=message, now=now
        )  # fmt: skip
        decision = finish_decision(pending, Case.State.ACCEPTED, now=now)
    appeal.result, appeal.decided_at = decision, now
    appeal.save()
    return decision
