"""Metrics of HTTP requests and WebSocket connections."""

from http import HTTPMethod

from shared.observability.metrics import OTHER, Counter, Gauge, Histogram
from shared.serving.asgi.routes import find_route
from shared.serving.asgi.types import Scope

REQUESTS = Counter("stoa_http_requests_total", "Answered requests.", "method", "route", "status")
SECONDS = Histogram(
    "stoa_http_request_duration_seconds", "From a request's head to its answer's end.", "method", "route"
)
IN_PROGRESS = Gauge("stoa_http_requests_in_progress", "Requests that are being answered.")
WEBSOCKETS = Counter("stoa_websocket_connections_total", "WebSockets that were let in.")
OPEN_WEBSOCKETS = Gauge("stoa_websocket_connections", "WebSockets that are open.")

_METHODS = frozenset(HTTPMethod)


def record_request(scope: Scope, status: int, seconds: float) -> str:
    """Count a request and return its route label. Status 0: the client left before the response."""
    method = method_label(scope)
    route = route_label(scope["path"])
    REQUESTS.add(1, method, route, str(status))
    SECONDS.observe(seconds, method, route)
    return route


def method_label(scope: Scope) -> str:
    """Return the HTTP method, or `other` for a non-standard one."""
    method: str = scope["method"]
    return method if method in _METHODS else OTHER


def route_label(path: str) -> str:
    """Return the template of the matching route, as in `/batch/<batch_id>`; `other` without a match."""
    route = find_route(path)
    return OTHER if route is None else route.template
