"""Decorators of views whose GET responses have an `ETag`, so that clients ask again with `If-None-Match`."""

import hashlib
from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.http import ConditionalGetMiddleware
from django.utils.decorators import decorator_from_middleware, method_decorator
from django.views.decorators.cache import cache_control
from django.views.decorators.vary import vary_on_headers

from shared.api.lists.pagination import TOTAL_HEADER
from shared.api.reads import cache

ViewT = TypeVar("ViewT", bound=type[Any])


class PagingConditionalGetMiddleware(ConditionalGetMiddleware):
    """Django's middleware with an ETag of the body and of what headers say about the rest of a list."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if isinstance(response, HttpResponse) and self.needs_etag(response) and not response.has_header("ETag"):
            digest = hashlib.sha256(response.content)
            for name in (TOTAL_HEADER, "Link"):
                digest.update(f"\n{response.get(name, '')}".encode())
            response.headers["ETag"] = f'"{digest.hexdigest()[:32]}"'
        return super().process_response(request, response)


conditional_page = decorator_from_middleware(PagingConditionalGetMiddleware)


def public_read(view: ViewT) -> ViewT:
    """Let any cache store the responses, and ask each time whether they have changed: unchanged ones are 304.

    A signed-in user may see more than others, so a cache tells credentials apart. The server's own keeps only responses
    to clients without any.
    """
    return _revalidated(method_decorator(cache.kept, name="dispatch")(view), no_cache=True)


def private_read(view: ViewT) -> ViewT:
    """Do as `public_read` does for responses that only the client itself may store."""
    return _revalidated(view, private=True, no_cache=True)


def _revalidated(view: ViewT, **directives: bool) -> ViewT:
    for decorator in (vary_on_headers("Authorization", "X-API-Key"), cache_control(**directives), conditional_page):
        view = method_decorator(decorator, name="dispatch")(view)
    return view
