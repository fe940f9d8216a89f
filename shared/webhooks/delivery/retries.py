"""The retry schedule of deliveries. Pure functions; the clock is passed in."""

from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from secrets import SystemRandom

# The delay after the first try, the second, and so on.
RETRY_DELAYS = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
)
MAX_TRIES = 1 + len(RETRY_DELAYS)
MAX_JITTER = 0.2  # share of the delay: deliveries that failed together must not all return together
MAX_RETRY_AFTER = timedelta(hours=24)
RETRY_AFTER_STATUSES = frozenset({429, 503})

_uniform = SystemRandom().uniform


def retry_delay(
    tries: int, retry_after: timedelta | None, uniform: Callable[[float, float], float] = _uniform
) -> timedelta | None:
    """Return the delay after this many tries, or None after the last. retry_after: the receiver's minimum."""
    if tries >= MAX_TRIES:
        return None
    delay = RETRY_DELAYS[tries - 1] * uniform(1, 1 + MAX_JITTER)
    return max(delay, min(retry_after, MAX_RETRY_AFTER)) if retry_after else delay


def parse_retry_after(status: int, header: str | None, now: datetime) -> timedelta | None:
    """Return the Retry-After of a response: seconds or a date (RFC 9110, section 10.2.3). None if absent or invalid."""
    if status not in RETRY_AFTER_STATUSES or header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), MAX_RETRY_AFTER)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return max(date - now, timedelta()) if date.tzinfo else None
