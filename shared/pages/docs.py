"""The page of an API's documentation: every operation, to try in the browser, under the header of the other pages."""

from typing import Any

from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.authentication import SessionAuthentication
from rest_framework.request import Request
from rest_framework.response import Response

# The page has no script of its own. Swagger UI sets styles inline, and has its icons in data URLs.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class DocsView(SpectacularSwaggerSplitView):
    """Anybody may have the page; the header names whoever is signed in to the admin."""

    url_name = "openapi"
    http_method_names = ["get", "head"]
    template_name = "pages/docs.html"
    authentication_classes = [SessionAuthentication]

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        response.headers["Content-Security-Policy"] = POLICY
        return super().finalize_response(request, response, *args, **kwargs)
