"""ASGI wrapper around Django, the same for both projects: `application = wrap(get_asgi_application())`.

A request passes, in this order: request id, drain, checks of its head, proxy headers, rate limit, body limits. Every
response gets security headers, every error a JSON body, every request one log line. Streamed responses are not
buffered, and the application sees when a client disconnects.
"""

import errno
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from django.conf import settings
from django.http.cookie import parse_cookie

from shared.api.errors import ApiError, Problem
from shared.api.limits.rate_limits import RateLimitDecision, raise_if_limited, rate_limit_headers
from shared.observability import tracing
from shared.observability.health import is_draining
from shared.observability.request_fields import RequestFields, bind_fields
from shared.observability.request_id import bind_request_id
from shared.serving.asgi.bodies import DeadlineBody, GzipDecoder, SpooledBody, body_too_large_error
from shared.serving.asgi.metrics import IN_PROGRESS, method_label, record_request
from shared.serving.asgi.refusals import CLIENT_KEY, client_address_key, client_of, pacer
from shared.serving.asgi.request_checks import apply_proxy_headers, get_header, trace_headers, validate_request
from shared.serving.asgi.responses import ResponseSender, draining_error
from shared.serving.asgi.types import Application, Event, Headers, Receive, Scope, Send
from shared.serving.asgi.websockets import WebSocketGuard

LIVENESS_PATH = "/livez"
PROBE_PATHS = frozenset({LIVENESS_PATH, "/readyz", "/health"})
PROBE_WEIGHT = 3  # of refusals, which cost as much
UNTRACED_PATHS = PROBE_PATHS | {"/metrics", "/traces"}  # polled all the time
DISK_FULL_RETRY_AFTER_SECONDS = 60

RateLimitHook = Callable[[Scope], Awaitable[RateLimitDecision | None]]
BodyLimitHook = Callable[[Scope], Awaitable[int]]

logger = structlog.get_logger(__name__)


def wrap(
    application: Application,
    *,
    rate_limit: RateLimitHook | None = None,
    body_limit: BodyLimitHook | None = None,
    max_websockets: int | None = None,
    slash_prefix: str | None = None,
) -> Application:
    """Return the application behind the wrapper.

    Args:
        rate_limit: counts a request; None from it means that this request is not limited.
        body_limit: returns the maximum body size in bytes, instead of `settings.MAX_BODY_BYTES`; may raise ApiError.
        max_websockets: maximum number of WebSockets that the application has open at once; None: it has no
            WebSockets, and every handshake is a 404.
        slash_prefix: a path below it may end with a slash, which is removed without a redirect.
    """
    http = _HttpWrapper(application, rate_limit, body_limit, slash_prefix)
    websockets = WebSocketGuard() if max_websockets is None else WebSocketGuard(application, max_websockets)

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await websockets.handle(scope, receive, send)
        elif scope["type"] == "http":
            await http.handle(scope, receive, send)
        else:
            await application(scope, receive, send)

    return wrapped


@dataclass(frozen=True)
class _HttpWrapper:
    application: Application
    rate_limit: RateLimitHook | None
    body_limit: BodyLimitHook | None
    slash_prefix: str | None

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request, and record it in the log, the metrics and its trace."""
        client_id = get_header(scope["headers"], b"x-request-id").decode("latin-1")
        headers, wanted = trace_headers(scope["headers"]), scope["path"] not in UNTRACED_PATHS
        with (
            bind_request_id(client_id) as request_id,
            bind_fields() as fields,
            tracing.trace_request("http", headers=headers, wanted=wanted) as span,
        ):
            origin = get_header(scope["headers"], b"origin").decode("latin-1")
            receive, send = _marking_authenticated(scope, receive, send, fields)
            sender = ResponseSender(send, path=scope["path"], request_id=request_id, origin=origin)
            sender.headers = tracing.propagation_headers(span) if span else {}
            started = time.monotonic()
            IN_PROGRESS.add(1)
            try:
                await self._respond(scope, receive, sender)
            finally:
                IN_PROGRESS.add(-1)
                if sender.status == 429:
                    pacer.count(sender.client)
                seconds = time.monotonic() - started - sender.held_seconds
                route = record_request(scope, sender.status, seconds)
                _log(scope, sender.status, seconds, fields)
                attributes = _span_attributes(scope, route, sender.status)
                tracing.annotate_span(span, attributes, failed=sender.status >= 500)

    async def _respond(self, scope: Scope, receive: Receive, sender: ResponseSender) -> None:
        """Call the application; an exception before the response has started becomes an error response."""
        try:
            await self._forward(scope, receive, sender)
        except ApiError as error:
            await sender.send_problem(error.problem)
        except Exception as error:
            if sender.status:
                raise  # the server logs it and cuts the connection, so no client takes the response as complete
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):  # bodies spool to disk
                logger.error("disk_full")
                retry_after = {"Retry-After": str(DISK_FULL_RETRY_AFTER_SECONDS)}
                await sender.send_problem(Problem.from_status(503, headers=retry_after))
                return
            logger.exception("request_failed")
            await sender.send_problem(Problem.from_status(500))

    async def _forward(self, scope: Scope, receive: Receive, sender: ResponseSender) -> None:
        """Check the request before its body is read, then call the application. Raise ApiError for a refusal."""
        if is_draining() and scope["path"] != LIVENESS_PATH:
            raise draining_error()
        validate_request(scope)
        scope = _without_slash(scope, self.slash_prefix)
        scope = apply_proxy_headers(scope, trusted_proxies=settings.TRUSTED_PROXY_COUNT)
        decision = await self.rate_limit(scope) if self.rate_limit else None
        sender.client = client_of(scope)
        is_unverified = _check_reserved(scope, sender.client)
        if self.rate_limit and not decision:
            if scope["path"] in PROBE_PATHS:
                pacer.count(sender.client, weight=PROBE_WEIGHT)
            else:  # a static file
                pacer.count(sender.client)
                scope[CLIENT_KEY] = sender.client
        sender.held_seconds = await pacer.hold(sender.client)
        if decision:
            sender.headers |= rate_limit_headers(decision)
            raise_if_limited(decision)
        max_bytes = await self.body_limit(scope) if self.body_limit else settings.MAX_BODY_BYTES
        if int(get_header(scope["headers"], b"content-length") or 0) > max_bytes:
            raise body_too_large_error(max_bytes)
        factor = max(1.0, max_bytes / settings.MAX_BODY_BYTES)
        body = DeadlineBody(
            receive, client=sender.client, max_bytes=max_bytes, factor=factor, is_unverified=is_unverified
        )
        try:
            await self._forward_body(scope, body, sender, max_bytes)
        finally:
            body.close()
        if body.has_timed_out and not sender.status:
            raise ApiError(408, "The request body took too long.", code="request_timeout")

    async def _forward_body(self, scope: Scope, body: DeadlineBody, sender: ResponseSender, max_bytes: int) -> None:
        decoder = _body_decoder(scope)
        if not decoder and not get_header(scope["headers"], b"transfer-encoding"):
            await self.application(scope, body, sender)
            return
        address = client_address_key(scope)
        spooled = SpooledBody(body, decoder, client=sender.client, address=address, count=body.count)
        try:
            if await spooled.read(max_bytes=max_bytes):
                await self.application(_with_content_length(scope, spooled.length), spooled, sender)
        finally:
            spooled.close()


def _check_reserved(scope: Scope, client: str) -> bool:
    """Return whether a request on a reserved connection has only a session cookie, which Django verifies later.

    Raise ApiError 503 for one whose credential is of nobody. Probes pass.
    """
    if not scope.get("stoa.needs_credential") or client.startswith("user:") or scope["path"] in PROBE_PATHS:
        return False
    cookies = parse_cookie(get_header(scope["headers"], b"cookie").decode("latin-1"))
    if settings.SESSION_COOKIE_NAME not in cookies:
        message = "Too many connections: the last ones are for valid credentials, and yours is unknown or has expired."
        raise ApiError(503, f"{message} Try again later.", headers={"Retry-After": "1"})
    return True


def _without_slash(scope: Scope, prefix: str | None) -> Scope:
    path = scope["path"]
    if prefix is None or not path.startswith(prefix) or not path.endswith("/") or path == prefix:
        return scope
    return {**scope, "path": path[:-1], "raw_path": scope.get("raw_path", b"").removesuffix(b"/")}


def _body_decoder(scope: Scope) -> GzipDecoder | None:
    """Return the decoder of an encoded body. Raise ApiError 415 for an encoding other than gzip."""
    encoding = get_header(scope["headers"], b"content-encoding").strip().lower()
    if encoding in (b"", b"identity"):
        return None
    if encoding not in (b"gzip", b"x-gzip"):
        raise ApiError(415, "Content-Encoding must be gzip or absent.", headers={"Accept-Encoding": "gzip"})
    return GzipDecoder()


def _with_content_length(scope: Scope, length: int) -> Scope:
    replaced = (b"transfer-encoding", b"content-encoding", b"content-length")
    headers: Headers = [(name, value) for name, value in scope["headers"] if name not in replaced]
    return {**scope, "headers": [*headers, (b"content-length", str(length).encode())]}


def _span_attributes(scope: Scope, route: str, status: int) -> tracing.Attributes:
    return {"http.request.method": method_label(scope), "http.route": route, "http.response.status_code": status}


def _log(scope: Scope, status: int, seconds: float, fields: RequestFields) -> None:
    """Write the request's log line. Status 0: the client left before the response. Successful probes are at debug."""
    level = "debug" if scope["path"] in PROBE_PATHS and status == 200 else "info"
    request = {"method": scope["method"], "path": scope["path"][:256], "status": status}
    getattr(logger, level)("request", **request, duration_ms=round(seconds * 1000, 1), **fields)


def _marking_authenticated(scope: Scope, receive: Receive, send: Send, fields: RequestFields) -> tuple[Receive, Send]:
    """Return the channel of a request that marks its connection as authenticated when the request is.

    The mark is set with the next event in either direction: a long upload or stream keeps it from its beginning. A
    reserved connection closes after the response to any other request, so that it does not idle there.
    """
    mark_authenticated = scope.get("stoa.mark_authenticated")
    if mark_authenticated is None:
        return receive, send

    async def marking_receive() -> Event:
        if "user_id" in fields:
            mark_authenticated(fields["user_id"])
        return await receive()

    async def marking_send(event: Event) -> None:
        if "user_id" in fields:
            mark_authenticated(fields["user_id"])
        elif event["type"] == "http.response.start" and scope.get("stoa.needs_credential"):
            headers: Headers = [(name, value) for name, value in event["headers"] if name.lower() != b"connection"]
            event = {**event, "headers": [*headers, (b"connection", b"close")]}
        await send(event)

    return marking_receive, marking_send
