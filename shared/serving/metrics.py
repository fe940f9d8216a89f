"""What is counted at the door, of both projects."""

import re
from http import HTTPMethod

from django.urls import Resolver404, resolve

from shared.observability.metrics import OTHER, Counter, Gauge, Histogram
from shared.serving.asgi_types import Scope

REQUESTS = Counter("stoa_http_requests_total", "Answered requests.", "method", "route", "status")
SECONDS = Histogram(
    "stoa_http_request_duration_seconds", "From a request's head to its answer's end.", "method", "route"
)
IN_PROGRESS = Gauge("stoa_http_requests_in_progress", "Requests that are being answered.")
SOCKETS = Counter("stoa_websocket_connections_total", "WebSockets that were let in.")
SOCKETS_OPEN = Gauge("stoa_websocket_connections", "WebSockets that are open.")

_METHODS = frozenset(HTTPMethod)
# Of a converter, `<slug:key>`; and of a regular expression, `^(?P<url>.*)$`.
_CONVERTER = re.compile(r"<\w+:(\w+)>")
_GROUP = re.compile(r"\(\?P<(\w+)>[^)]*\)")


def note_request(scope: Scope, status: int, took_s: float) -> str:
    """Answers the route. Status 0: its client left before it was answered."""
    method = method_of(scope)
    route = route_of(scope["path"])
    REQUESTS.add(1, method, route, str(status))
    SECONDS.observe(took_s, method, route)
    return route


def method_of(scope: Scope) -> str:
    """One of HTTP's own, or `other`."""
    method: str = scope["method"]
    return method if method in _METHODS else OTHER


def route_of(path: str) -> str:
    """The template of the route that answers at this path: `/batch/<batch_id>`; `other` where there is none."""
    try:
        route = resolve(path).route
    except Resolver404:
        return OTHER
    return "/" + _CONVERTER.sub(r"<\1>", _GROUP.sub(r"<\1>", route)).replace("^", "").rstrip("$")
