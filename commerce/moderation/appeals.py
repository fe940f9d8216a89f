"""Appeals: an author's word against a removal, once, which brings the case back into the queue."""

from datetime import datetime

from django.db import IntegrityError, transaction

from commerce.moderation.cases import recount, set_state
from commerce.moderation.decisions import Action, Conflict, Words, begin, case_of, finish
from commerce.moderation.models import Appeal, Case, Decision, Kind, Notice
from commerce.moderation.reportable_content import lock_content
from commerce.moderation.services import NOTHING_SAID, restore
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.audit.services import record_audit_entry


@transaction.atomic
def file_appeal(*, author: User, notice_id: int, message: str, now: datetime) -> Appeal:
    """Against what one of the author's notices tells of. Raises ApiError 404 for a notice that they have not, Conflict
    where it is not about a removal, is too old, was appealed against, or the content is back."""
    notice = Notice.objects.for_user(author, now).select_related("decision__case").filter(pk=notice_id).first()
    if notice is None:
        raise ApiError(404, "You have no notice with this id.")
    if notice.appeal_until is None or now >= notice.appeal_until:
        raise Conflict("Only a removal can be appealed against, and only until the day that its notice names.")
    kind, model_id = Kind(notice.decision.case.model_type), notice.decision.case.model_id
    case = case_of(kind, lock_content(kind, model_id, deleted=True), now)
    try:
        with transaction.atomic():
            appeal = Appeal.objects.create(
                case=case, decision=notice.decision, author=author, message=message, created_at=now
            )
    except IntegrityError:
        raise Conflict("You have appealed against this already.") from None
    removal = case.decisions.filter(action=Action.ACCEPTED, undone_at=None).order_by("-id").first()
    if case.state != Case.State.ACCEPTED or removal != notice.decision:
        raise Conflict("This was decided anew since.")
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
    *, appeal_id: int, overturn: bool, moderator: User, now: datetime, words: Words = NOTHING_SAID
) -> Decision:
    """Keeps the content down, or brings it back and takes the reporters' word for less. Raises ApiError 404, Conflict
    for one that is decided, or where the author has written another review since."""
    found = Appeal.objects.select_related("case").filter(pk=appeal_id).first()
    if found is None:
        raise ApiError(404, "There is no appeal with this id.")
    kind = Kind(found.case.model_type)
    content = lock_content(kind, found.case.model_id, deleted=True)
    appeal, case = Appeal.objects.get(pk=appeal_id), Case.objects.get(pk=found.case_id)
    if appeal.status != Appeal.Status.OPEN:
        raise Conflict("This appeal is decided already.")
    appeal.status = Appeal.Status.OVERTURNED if overturn else Appeal.Status.KEPT
    if overturn:
        decision = restore(Action.APPEAL_OVERTURNED, case, content, moderator=moderator, words=words, now=now)
    else:
        deed = begin(Action.APPEAL_KEPT, case, content, [], moderator=moderator, words=words, now=now)
        decision = finish(deed, Case.State.ACCEPTED, now=now)
    appeal.result, appeal.decided_at = decision, now
    appeal.save()
    return decision
