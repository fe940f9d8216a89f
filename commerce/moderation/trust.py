"""How far a report is believed. Pure: figures in, figures out.

A reporter's weight is how often moderators agreed with them, smoothed by four imagined decisions of which two agreed
(the mean of a beta distribution): (agreed + 2) / (agreed + disagreed + 4). Who has reported nothing yet weighs 0.5, one
agreement makes it 0.6, one disagreement 0.4, and it takes many to come near 1 or 0.

A report counts for hiding on its own when its reporter weighs at least 0.5, has had the account for a week, and has no
part in the matter. So a crowd of new accounts hides nothing; several of them within an hour are a brigade, which is
shown to the moderator.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from commerce.moderation.models import AbuseReport

PRIOR_AGREED = PRIOR_DISAGREED = 2
WHOLE = 1000  # weights are kept in thousandths
TRUSTED_FROM = 500
NEW_ACCOUNT = timedelta(days=7)
BRIGADE_SIZE = 5
BRIGADE_WITHIN = timedelta(hours=1)


def weight(*, agreed: int, disagreed: int) -> int:
    """In thousandths, from above 0 to below 1000."""
    return round(WHOLE * (agreed + PRIOR_AGREED) / (agreed + disagreed + PRIOR_AGREED + PRIOR_DISAGREED))


def standing(*, weight: int, account_age: timedelta, is_involved: bool) -> AbuseReport.Standing:
    """Whether a report counts for hiding on its own, and if not, the first reason why."""
    if is_involved:
        return AbuseReport.Standing.INVOLVED
    if account_age < NEW_ACCOUNT:
        return AbuseReport.Standing.NEW_ACCOUNT
    return AbuseReport.Standing.TRUSTED if weight >= TRUSTED_FROM else AbuseReport.Standing.UNRELIABLE


def is_brigade(reported_at: Iterable[datetime]) -> bool:
    """Whether these reports by new accounts came BRIGADE_SIZE within BRIGADE_WITHIN of each other."""
    times = sorted(reported_at)
    groups = zip(times, times[BRIGADE_SIZE - 1 :], strict=False)
    return any(last - first <= BRIGADE_WITHIN for first, last in groups)
