"""The retry schedule of failed deliveries."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.webhooks.delivery.retries import MAX_TRIES, parse_retry_after, retry_delay

pytestmark = pytest.mark.no_database

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def delays(uniform: float) -> list[timedelta | None]:
    return [retry_delay(tries, None, lambda least, most: uniform) for tries in range(1, 8)]


def test_the_retry_schedule_is_as_documented():
    assert delays(1) == [
        timedelta(seconds=5),
        timedelta(minutes=5),
        timedelta(minutes=30),
        timedelta(hours=2),
        timedelta(hours=5),
        timedelta(hours=10),
        None,
    ]
    assert MAX_TRIES == 7


def test_w4_delays_have_up_to_20_percent_jitter():
    drawn = {retry_delay(1, None) for _ in range(200)}

    assert len(drawn) > 100
    assert all(timedelta(seconds=5) <= wait <= timedelta(seconds=6) for wait in drawn if wait)


def test_w7_retry_after_extends_the_delay_up_to_a_day():
    plainly = {"uniform": lambda least, most: 1.0}

    assert retry_delay(1, timedelta(minutes=2), **plainly) == timedelta(minutes=2)
    assert retry_delay(2, timedelta(minutes=2), **plainly) == timedelta(minutes=5)
    assert retry_delay(1, timedelta(days=9), **plainly) == timedelta(hours=24)
    assert retry_delay(7, timedelta(minutes=2), **plainly) is None


@pytest.mark.parametrize(
    ("status", "header", "expected"),
    [
        (429, "120", timedelta(minutes=2)),
        (503, " 7 ", timedelta(seconds=7)),
        (429, "Sat, 21 Nov 2026 12:01:00 GMT", timedelta(minutes=1)),
        (429, "Sat, 21 Nov 2026 11:00:00 GMT", timedelta(0)),
        (429, "9" * 400, timedelta(hours=24)),
        (429, None, None),
        (429, "", None),
        (429, "-1", None),
        (429, "soon", None),
        (429, "Sat, 99 Nov 2026 12:01:00 GMT", None),
        (429, "Sat, 21 Nov 2026 12:01:00 -0000", None),
        (500, "120", None),
        (200, "120", None),
    ],
)
def test_w7_retry_after_is_parsed_as_seconds_or_a_date(status: int, header: str | None, expected: timedelta | None):
    assert parse_retry_after(status, header, NOW) == expected
