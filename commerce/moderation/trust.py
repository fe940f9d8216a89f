"""Trust in reports: their standing, and brigades. Pure functions.

A report counts for automatic hiding if its reporter weighs at least 0.5, has an account of a week or more, and neither
wrote the content nor works for the shop. New accounts therefore hide nothing. Several of them within an hour are a
brigade, which moderators see.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from commerce.moderation.models import AbuseReport

MIN_TRUSTED_WEIGHT = 500  # thousandths
NEW_ACCOUNT_AGE = timedelta(days=7)
MIN_BRIGADE_SIZE = 5
BRIGADE_WINDOW = timedelta(hours=1)


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
