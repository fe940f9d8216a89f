"""Deprecated routes: their headers, and the former path of an OpenAPI document."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

from django.utils.http import http_date
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework.request import Request
from rest_framework.response import Response


class DeprecatedSchemaView(SpectacularJSONAPIView):
    """The OpenAPI document at a former path, with the headers of a deprecated route."""

    deprecation_headers: Mapping[str, str] = {}

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        self.headers |= self.deprecation_headers
        return super().finalize_response(request, response, *args, **kwargs)


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
