"""Routes of paths, which the server asks for before Django resolves them for the view."""

import re
from dataclasses import dataclass
from functools import lru_cache

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.urls import Resolver404, resolve

MAX_CACHED_ROUTES = 4096
MAX_CACHED_LENGTH = 256  # characters of a path

_CONVERTER = re.compile(r"<\w+:(\w+)>")  # `<slug:key>` of path()
_GROUP = re.compile(r"\(\?P<(\w+)>[^)]*\)")  # `(?P<url>.*)` of re_path()


@dataclass(frozen=True)
class Route:
    """Template of the paths of a view, as in `/batch/<batch_id>`, and whether the view is a coroutine function."""

    template: str
    is_async: bool


def find_route(path: str) -> Route | None:
    """Return the route of a path, or None if the path has none."""
    return (_cached_route if len(path) <= MAX_CACHED_LENGTH else _find_route)(settings.ROOT_URLCONF, path)


def _find_route(urlconf: str, path: str) -> Route | None:
    try:
        match = resolve(path, urlconf)
    except Resolver404:
        return None
    names = _CONVERTER.sub(r"<\1>", _GROUP.sub(r"<\1>", match.route))
    return Route("/" + names.replace("^", "").rstrip("$"), iscoroutinefunction(match.func))


_cached_route = lru_cache(maxsize=MAX_CACHED_ROUTES)(_find_route)
