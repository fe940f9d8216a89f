"""Headers of deprecated routes."""

from datetime import UTC, date, datetime, time

from django.utils.http import http_date


def deprecation_headers(*, since: date, sunset: date, successor: str) -> dict[str, str]:
    """Return the headers of a route that is deprecated and will be removed, with the path of its successor.

    `Deprecation` is defined by RFC 9745, `Sunset` by RFC 8594 and `successor-version` by RFC 5829.
    """
    return {
        "Deprecation": f"@{_timestamp(since)}",
        "Sunset": http_date(_timestamp(sunset)),
        "Link": f'<{successor}>; rel="successor-version"',
    }


def _timestamp(day: date) -> int:
    return int(datetime.combine(day, time.min, tzinfo=UTC).timestamp())
