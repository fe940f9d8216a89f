"""ASGI wrapper around a project's WebSocket router: the checks of HTTP, and the origin of a browser's page.

It does not look at credentials: a client sends them in its first message.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from uvicorn.protocols.utils import ClientDisconnected

from shared.api.errors import ApiError, Problem
from shared.observability.health import is_draining
from shared.observability.request_fields import RequestFields, bind_fields
from shared.observability.request_id import bind_request_id
from shared.serving.asgi.metrics import OPEN_WEBSOCKETS, WEBSOCKETS
from shared.serving.asgi.refusals import client_address_key, pacer
from shared.serving.asgi.request_checks import apply_proxy_headers, get_header, validate_request
from shared.serving.asgi.responses import draining_error, problem_response_parts
from shared.serving.asgi.types import Application, Event, Headers, Receive, Scope, Send

# Close codes of RFC 6455, section 7.4, and of its registry.
INTERNAL_ERROR = 1011
TRY_AGAIN_LATER = 1013
MAX_HELD_PER_ADDRESS = 100
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}

logger = structlog.get_logger(__name__)


async def reject_unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    """Raise ApiError 404. This is the application of every path that has no WebSocket."""
    raise ApiError(404, "There is no WebSocket at this address.")


@dataclass
class WebSocketGuard:
    """A project's WebSocket application, and a limit of connections in this process."""

    application: Application = reject_unknown_path
    max_open: int = 1
    open: int = 0
    _held: Counter[str] = field(default_factory=Counter)  # handshakes that wait, by address

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection from its handshake to its end, and write one log line."""
        client_id = get_header(scope["headers"], b"x-request-id").decode("latin-1")
        with bind_request_id(client_id) as request_id, bind_fields() as fields:
            channel = WebSocketChannel(scope, receive, send, request_id=request_id)
            started = time.monotonic()
            try:
                await self._forward(scope, channel)
            except ApiError as error:
                await channel.send_problem(error.problem)
            except ClientDisconnected:
                pass
            except Exception:
                logger.exception("socket_failed")
                await channel.send_problem(Problem.from_status(500))
            finally:
                _log(scope, channel, time.monotonic() - started, fields)

    async def _forward(self, scope: Scope, channel: "WebSocketChannel") -> None:
        scope = validate_handshake(scope)
        await self._hold(client_address_key(scope))
        if self.open >= self.max_open:
            await channel.send({"type": "websocket.accept"})
            await channel.send({"type": "websocket.close", "code": TRY_AGAIN_LATER, "reason": "too many connections"})
            return
        self.open += 1
        OPEN_WEBSOCKETS.add(1)
        try:
            await self.application(scope, channel.receive, channel.send)
        finally:
            self.open -= 1
            OPEN_WEBSOCKETS.add(-1)

    async def _hold(self, client: str) -> None:
        """Let a handshake wait while its address is in debt. Raise ApiError 429 if many of it wait."""
        if self.application is reject_unknown_path:
            return
        pacer.count(client)
        if self._held[client] >= MAX_HELD_PER_ADDRESS:
            raise ApiError(429, "Too many connections. Try again later.", headers={"Retry-After": "10"})
        self._held[client] += 1
        try:
            await pacer.hold(client)
        finally:
            self._held[client] -= 1
            if not self._held[client]:
                del self._held[client]


def validate_handshake(scope: Scope) -> Scope:
    """Return the scope behind trusted proxies. Raise ApiError for a handshake that is refused."""
    if is_draining():
        raise draining_error()
    validate_request(scope)
    scope = apply_proxy_headers(scope, trusted_proxies=settings.TRUSTED_PROXY_COUNT)
    host = get_header(scope["headers"], b"host").decode("latin-1").lower()
    if not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        raise ApiError(400, "This server does not answer for this Host.")
    if not _is_allowed_origin(get_header(scope["headers"], b"origin").decode("latin-1"), host):
        raise ApiError(403, "Pages of this origin may not connect. STOA_CORS_ORIGINS names those that may.")
    return scope


def _is_allowed_origin(origin: str, host: str) -> bool:
    """Return whether a page of this origin may connect: same origin or in CORS_ALLOWED_ORIGINS.

    Clients other than browsers send no Origin.
    """
    if not origin or origin in settings.CORS_ALLOWED_ORIGINS:
        return True
    try:
        page = urlsplit(origin.lower())
    except ValueError:  # brackets around something else than an IPv6 address
        return False
    default_port = _DEFAULT_PORTS.get(page.scheme)
    return default_port is not None and page.netloc.removesuffix(default_port) == host.removesuffix(default_port)


class WebSocketChannel:
    """The `receive` and `send` of a connection; records the status of its handshake and its close code."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, request_id: str) -> None:
        self._receive = receive
        self._send = send
        self._path = scope["path"]
        self._can_send_body = "websocket.http.response" in scope.get("extensions", {})
        self._request_id = request_id
        self.status = 0
        self.code: int | None = None

    async def receive(self) -> Event:
        event = await self._receive()
        if event["type"] == "websocket.disconnect" and self.code is None:
            self.code = event.get("code")
        return event

    async def send(self, event: Event) -> None:
        if event["type"] == "websocket.accept":
            self.status = 101
            WEBSOCKETS.add(1)
            request_id: Headers = [(b"x-request-id", self._request_id.encode())]
            event = {**event, "headers": [*event.get("headers", ()), *request_id]}
        elif event["type"] == "websocket.close":
            self.code = event["code"]
        await self._send(event)

    async def send_problem(self, problem: Problem) -> None:
        """Refuse the handshake with this problem, or close a connection that is open already."""
        if self.code is not None:
            return
        if self.status:
            await self.send({"type": "websocket.close", "code": INTERNAL_ERROR})
            return
        self.status = problem.status
        if not self._can_send_body:  # daphne, whose answer to a close before the accept is a 403 without a body
            await self._send({"type": "websocket.close"})
            return
        headers, body = problem_response_parts(problem, path=self._path, request_id=self._request_id)
        await self._send({"type": "websocket.http.response.start", "status": problem.status, "headers": headers})
        await self._send({"type": "websocket.http.response.body", "body": body, "more_body": False})


def _log(scope: Scope, channel: WebSocketChannel, seconds: float, fields: RequestFields) -> None:
    connection = {"path": scope["path"][:256], "status": channel.status, "code": channel.code}
    logger.info("socket", **connection, duration_ms=round(seconds * 1000, 1), **fields)
