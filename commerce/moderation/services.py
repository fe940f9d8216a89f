"""Every write to abuse reports."""

from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F

from commerce.moderation.models import AbuseReport
from commerce.moderation.targets import TARGETS
from shared.accounts.models import User
from shared.api.errors import ApiError


class ContentNotFound(ApiError):
    """There is no such content, or none of that kind can be reported."""

    def __init__(self) -> None:
        super().__init__(404, "There is no such content to report.")


@transaction.atomic
def file_report(*, user: User, model_type: str, model_id: int, message: str, now: datetime) -> AbuseReport:
    """One user's report of what others can see, counted at the content. Raises ContentNotFound, and ApiError 409 when
    this user has reported it before."""
    model = TARGETS.get(model_type)
    if model is None:
        raise ContentNotFound
    reported = model._default_manager.filter(pk=model_id, deleted_at=None)
    # First, as this locks the content: nobody takes it down between here and the report.
    if not reported.update(abusive_reports_count=F("abusive_reports_count") + 1):
        raise ContentNotFound
    try:
        with transaction.atomic():
            return AbuseReport.objects.create(
                user=user, model_type=model_type, model_id=model_id, message=message, created_at=now, updated_at=now
            )
    except IntegrityError:
        raise ApiError(409, "You have reported this already.") from None
