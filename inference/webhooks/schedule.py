"""When a delivery that failed is tried again. Pure: it knows no clock."""

from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from secrets import SystemRandom

# After the first try, the second, and so on. After the last comes no other.
WAITS = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
)
MOST_TRIES = 1 + len(WAITS)
JITTER = 0.2  # up to so much longer: those that failed together do not all come back together
LONGEST_ASKED = timedelta(hours=24)
ASKING = frozenset({429, 503})  # the statuses whose Retry-After is heeded

_uniform = SystemRandom().uniform


def wait_after(
    tries: int, asked: timedelta | None, uniform: Callable[[float, float], float] = _uniform
) -> timedelta | None:
    """How long to wait after so many tries; None: no more. asked: what the receiver asked for at least."""
    if tries >= MOST_TRIES:
        return None
    wait = WAITS[tries - 1] * uniform(1, 1 + JITTER)
    return max(wait, min(asked, LONGEST_ASKED)) if asked else wait


def read_retry_after(status: int, header: str | None, now: datetime) -> timedelta | None:
    """What an answer asks for: seconds or a date (RFC 9110, section 10.2.3). None where it asks for nothing that can be
    understood."""
    if status not in ASKING or header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), LONGEST_ASKED)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return max(date - now, timedelta()) if date.tzinfo else None
