"""The door in front of a project's WebSockets: what stands in front of HTTP, and where a browser's page came from.

Nothing about the credential is asked here: whoever opens a socket says who they are in their first message.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from uvicorn.protocols.utils import ClientDisconnected

from shared.api.errors import ApiError, Problem
from shared.observability.health import is_draining
from shared.observability.request_id import bound_request_id
from shared.observability.request_notes import Notes, bound_notes
from shared.serving.answers import problem_answer
from shared.serving.asgi_types import Application, Event, Headers, Receive, Scope, Send
from shared.serving.metrics import SOCKETS, SOCKETS_OPEN
from shared.serving.requests import check_request, header, trusted_scope

DRAIN_RETRY_S = 5
INTERNAL_ERROR = 1011
OVERLOADED = 1013
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}

logger = structlog.get_logger(__name__)


@dataclass
class Sockets:
    """A project's WebSockets by path, and how many may be open at once in this process."""

    applications: Mapping[str, Application] = field(default_factory=dict)
    most: int = 0
    open: int = 0

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One socket from its handshake to its end, with one log line."""
        offered = header(scope["headers"], b"x-request-id").decode("latin-1")
        with bound_request_id(offered) as request_id, bound_notes() as notes:
            channel = SocketChannel(receive, send, path=scope["path"], request_id=request_id)
            began = time.monotonic()
            try:
                await self._pass_on(scope, channel)
            except ApiError as error:
                await channel.refuse(error.problem)
            except ClientDisconnected:
                pass
            except Exception:
                logger.exception("socket_failed")
                await channel.refuse(Problem.of_status(500))
            finally:
                _log(scope, channel, time.monotonic() - began, notes)

    async def _pass_on(self, scope: Scope, channel: "SocketChannel") -> None:
        scope = admitted(scope)
        application = self.applications.get(scope["path"])
        if application is None:
            raise ApiError(404, "There is no WebSocket at this address.")
        if self.open >= self.most:
            await channel.send({"type": "websocket.accept"})
            await channel.send({"type": "websocket.close", "code": OVERLOADED, "reason": "too many connections"})
            return
        self.open += 1
        SOCKETS.add(1)
        SOCKETS_OPEN.add(1)
        try:
            await application(scope, channel.receive, channel.send)
        finally:
            self.open -= 1
            SOCKETS_OPEN.add(-1)


def admitted(scope: Scope) -> Scope:
    """The scope as it may be believed. Raises ApiError for a handshake that is refused."""
    if is_draining():
        raise ApiError(503, "This server is about to stop. Try again.", headers={"Retry-After": str(DRAIN_RETRY_S)})
    check_request(scope)
    scope = trusted_scope(scope, trusted_proxies=settings.TRUSTED_PROXIES)
    host = header(scope["headers"], b"host").decode("latin-1").lower()
    if not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        raise ApiError(400, "This server does not answer for this Host.")
    if not _may_come_from(header(scope["headers"], b"origin").decode("latin-1"), host):
        raise ApiError(403, "Pages of this origin may not connect. STOA_CORS_ORIGINS names those that may.")
    return scope


def _may_come_from(origin: str, host: str) -> bool:
    """Browsers say which page connects; it is one of ours, or one that the operator names. Others say nothing."""
    if not origin or origin in settings.CORS_ALLOWED_ORIGINS:
        return True
    try:
        page = urlsplit(origin.lower())
    except ValueError:  # brackets that hold no IPv6 address
        return False
    default_port = _DEFAULT_PORTS.get(page.scheme)
    return default_port is not None and page.netloc.removesuffix(default_port) == host.removesuffix(default_port)


class SocketChannel:
    """The two ends that the application gets; remembers how the socket began and ended."""

    def __init__(self, receive: Receive, send: Send, *, path: str, request_id: str) -> None:
        self._receive = receive
        self._send = send
        self._path = path
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
            named: Headers = [(b"x-request-id", self._request_id.encode())]
            event = {**event, "headers": [*event.get("headers", ()), *named]}
        elif event["type"] == "websocket.close":
            self.code = event["code"]
        await self._send(event)

    async def refuse(self, problem: Problem) -> None:
        """Answer the handshake with this problem; a socket that is open already is closed."""
        if self.code is not None:
            return
        if self.status:
            await self.send({"type": "websocket.close", "code": INTERNAL_ERROR})
            return
        self.status = problem.status
        headers, body = problem_answer(problem, path=self._path, request_id=self._request_id)
        await self._send({"type": "websocket.http.response.start", "status": problem.status, "headers": headers})
        await self._send({"type": "websocket.http.response.body", "body": body, "more_body": False})


def _log(scope: Scope, channel: SocketChannel, took_s: float, notes: Notes) -> None:
    fields = {"path": scope["path"][:256], "status": channel.status, "code": channel.code}
    logger.info("socket", **fields, duration_ms=round(took_s * 1000, 1), **notes)
