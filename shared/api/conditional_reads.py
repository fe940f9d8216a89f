"""Decorators of views whose GET responses have an `ETag`, so that clients ask again with `If-None-Match`."""

from typing import Any, TypeVar

from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page
from django.views.decorators.vary import vary_on_headers

ViewT = TypeVar("ViewT", bound=type[Any])


def public_read(view: ViewT) -> ViewT:
    """Let any cache store the responses, and ask each time whether they have changed: unchanged ones are 304.

    A signed-in user may see more than others, so a cache tells credentials apart.
    """
    return _revalidated(view, no_cache=True)


def private_read(view: ViewT) -> ViewT:
    """Do as `public_read` does for responses that only the client itself may store."""
    return _revalidated(view, private=True, no_cache=True)


def _revalidated(view: ViewT, **directives: bool) -> ViewT:
    for decorator in (vary_on_headers("Authorization"), cache_control(**directives), conditional_page):
        view = method_decorator(decorator, name="dispatch")(view)
    return view
