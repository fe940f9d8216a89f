"""The former path of the OpenAPI document, which `/api/openapi.json` replaces."""

from datetime import date
from typing import Any

from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from shared.api.openapi import deprecation_headers

DEPRECATION_HEADERS = deprecation_headers(
    since=date(2026, 11, 24), sunset=date(2027, 6, 30), successor="/api/openapi.json"
)


class DeprecatedSchemaView(SpectacularJSONAPIView):
    """The same document at `/api/schema`, with the headers of a deprecated route."""

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        self.headers |= DEPRECATION_HEADERS
        return super().finalize_response(request, response, *args, **kwargs)
