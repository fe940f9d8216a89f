"""The page. Who uses it signs in on it, and the credential stays in that tab."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

# Stricter than other pages: nothing inline, nothing from elsewhere. Not every browser counts a WebSocket as 'self'.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self' ws://{host} wss://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@require_safe
def playground(request: HttpRequest) -> HttpResponse:
    """GET /playground: anybody may have the page; all it can do is ask the API."""
    answer = render(request, "playground/page.html")
    answer.headers["Content-Security-Policy"] = POLICY.format(host=request.get_host())
    return answer
