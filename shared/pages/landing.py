"""The page at `/`: what this server is and where to go, as HTML for a browser and as JSON for a client."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True)
class Link:
    """A link of the page: `name` in JSON, `title` and `description` for people."""

    name: str
    path: str
    title: str
    description: str


def landing_page(title: str, summary: str, links: Sequence[Link]) -> Callable[[HttpRequest], HttpResponse]:
    """Return the view of GET /. Anybody may have the page; it names whoever is signed in to the admin."""

    @csrf_exempt  # it changes nothing: another method is 405
    @require_safe
    def landing(request: HttpRequest) -> HttpResponse:
        response: HttpResponse
        if request.get_preferred_type(["application/json", "text/html"]) == "text/html":
            context = {"title": title, "summary": summary, "links": links, "version": settings.VERSION}
            response = render(request, "pages/landing.html", context)
            response.headers["Content-Security-Policy"] = POLICY
        else:
            urls = {link.name: request.build_absolute_uri(link.path) for link in links}
            response = JsonResponse({"name": title, "version": settings.VERSION, "links": urls})
        patch_vary_headers(response, ["Accept", "Cookie"])
        return response

    return landing
