"""Trust in reports: the weight of reporters, the standing of reports, and brigades. Pure functions.

A reporter's weight is the share of decisions that agreed with them, as the mean of a beta distribution with a prior of
four decisions: (agreed + 2) / (agreed + disagreed + 4). Without decisions it is 0.5, after one agreement 0.6, after one
disagreement 0.4.

A report counts for automatic hiding if its reporter weighs at least 0.5, has an account of a week or more, and neither
wrote the content nor works for the shop. New accounts therefore hide nothing. Several of them within an hour are a
brigade, which moderators see.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from commerce.moderation.models import AbuseReport

PRIOR_AGREED = PRIOR_DISAGREED = 2
WEIGHT_SCALE = 1000  # weights are stored in thousandths
MIN_TRUSTED_WEIGHT = 500
NEW_ACCOUNT_AGE = timedelta(days=7)
MIN_BRIGADE_SIZE = 5
BRIGADE_WINDOW = timedelta(hours=1)


def reporter_weight(*, agreed: int, disagreed: int) -> int:
    """Return the weight in thousandths, above 0 and below 1000."""
    return round(WEIGHT_SCALE * (agreed + PRIOR_AGREED) / (agreed + disagreed + PRIOR_AGREED + PRIOR_DISAGREED))


def report_standing(*, weight: int, account_age: timedelta, is_involved: bool) -> AbuseReport.Standing:
    """Return whether a report counts for automatic hiding, or the first reason why it does not."""
    if is_involved:
        return AbuseReport.Standing.INVOLVED
    if account_age < NEW_ACCOUNT_AGE:
        return AbuseReport.Standing.NEW_ACCOUNT
    return AbuseReport.Standing.TRUSTED if weight >= MIN_TRUSTED_WEIGHT else AbuseReport.Standing.UNRELIABLE


def is_brigade(reported_at: Iterable[datetime]) -> bool:
    """Return whether MIN_BRIGADE_SIZE of these reports of new accounts lie within BRIGADE_WINDOW."""
    times = sorted(reported_at)
    groups = zip(times, times[MIN_BRIGADE_SIZE - 1 :], strict=False)
    return any(last - first <= BRIGADE_WINDOW for first, last in groups)
