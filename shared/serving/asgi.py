"""The door in front of Django, the same for both projects: `application = wrap(get_asgi_application())`.

In this order: the request's id, the drain, what a request may look like, who sent it, how many of them may come, how
large and how slow its body may be; behind it, safe headers on every answer, errors as JSON, one log line a request. It
holds nothing back: what the application streams goes out at once, and a client that leaves is seen by the application.
"""

import errno
import time
from collections.abc import Awaitable, Callable

import structlog
from django.conf import settings

from shared.api.errors import ApiError, Problem
from shared.api.rate_limits import Decision, rate_limit_headers, require
from shared.observability import tracing
from shared.observability.health import is_draining
from shared.observability.request_id import bound_request_id
from shared.observability.request_notes import Notes, bound_notes
from shared.serving.answers import Answer
from shared.serving.asgi_types import Application, Headers, Receive, Scope, Send
from shared.serving.bodies import SpooledBody, TimedBody, too_large
from shared.serving.metrics import IN_PROGRESS, method_of, note_request
from shared.serving.requests import check_request, header, trace_headers, trusted_scope
from shared.serving.sockets import Sockets

LIVENESS_PATH = "/livez"
PROBE_PATHS = frozenset({LIVENESS_PATH, "/readyz", "/health"})
UNTRACED_PATHS = PROBE_PATHS | {"/metrics", "/traces"}  # asked again and again, and nobody asks how that went
DRAIN_RETRY_S = 5

DISK_RETRY_S = 60

Limit = Callable[[Scope], Awaitable[Decision | None]]
BodyCap = Callable[[Scope], Awaitable[int]]

logger = structlog.get_logger(__name__)


def wrap(
    application: Application,
    *,
    limit: Limit | None = None,
    body_cap: BodyCap | None = None,
    sockets: Sockets | None = None,
) -> Application:
    """The application behind the door. `limit` counts a request, of which it sees what may be believed; None from it:
    this one is not limited. `body_cap` says how many bytes its body may have, for a project in which that is not
    `settings.MAX_BODY_BYTES` everywhere; it may refuse by raising ApiError. `sockets`: none, unless they are given."""
    sockets = sockets or Sockets()

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await sockets.answer(scope, receive, send)
            return
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        offered = header(scope["headers"], b"x-request-id").decode("latin-1")
        headers, wanted = trace_headers(scope["headers"]), scope["path"] not in UNTRACED_PATHS
        with (
            bound_request_id(offered) as request_id,
            bound_notes() as notes,
            tracing.root("http", headers=headers, wanted=wanted) as span,
        ):
            origin = header(scope["headers"], b"origin").decode("latin-1")
            answer = Answer(send, path=scope["path"], request_id=request_id, origin=origin)
            answer.headers = tracing.headers(span) if span else {}
            began = time.monotonic()
            IN_PROGRESS.add(1)
            try:
                await _answer(application, scope, receive, answer, limit, body_cap)
            finally:
                IN_PROGRESS.add(-1)
                took_s = time.monotonic() - began
                route = note_request(scope, answer.status, took_s)
                _log(scope, answer.status, took_s, notes)
                tracing.describe(span, _attributes(scope, route, answer.status), failed=answer.status >= 500)

    return door


async def _answer(
    application: Application,
    scope: Scope,
    receive: Receive,
    answer: Answer,
    limit: Limit | None,
    body_cap: BodyCap | None,
) -> None:
    """Pass the request on; what goes wrong before an answer has begun becomes one."""
    try:
        _admit(scope)
        scope = trusted_scope(scope, trusted_proxies=settings.TRUSTED_PROXIES)
        if limit and (decision := await limit(scope)):
            answer.headers |= rate_limit_headers(decision)
            require(decision)
        cap = await body_cap(scope) if body_cap else settings.MAX_BODY_BYTES
        _refuse_declared(scope, cap)
        await _pass_on(application, scope, receive, answer, cap)
    except ApiError as error:
        await answer.refuse(error.problem)
    except Exception as error:
        if answer.status:
            raise  # too late for an answer: the server logs it and cuts the connection, so nobody takes it for whole
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):  # large bodies wait on disk
            logger.error("disk_full")
            await answer.refuse(Problem.of_status(503, headers={"Retry-After": str(DISK_RETRY_S)}))
            return
        logger.exception("request_failed")
        await answer.refuse(Problem.of_status(500))


def _admit(scope: Scope) -> None:
    """Raises ApiError for what is refused before a byte of its body is read."""
    if is_draining() and scope["path"] != LIVENESS_PATH:
        raise ApiError(503, "This server is about to stop. Try again.", headers={"Retry-After": str(DRAIN_RETRY_S)})
    check_request(scope)


def _refuse_declared(scope: Scope, cap: int) -> None:
    if int(header(scope["headers"], b"content-length") or 0) > cap:
        raise too_large(cap)


async def _pass_on(application: Application, scope: Scope, receive: Receive, answer: Answer, cap: int) -> None:
    body = TimedBody(receive, times=max(1.0, cap / settings.MAX_BODY_BYTES))
    if header(scope["headers"], b"transfer-encoding"):
        await _pass_on_chunked(application, scope, body, answer, cap)
    else:
        await application(scope, body, answer)
    if body.late and not answer.status:
        raise ApiError(408, "The request body took too long.", code="request_timeout")


async def _pass_on_chunked(application: Application, scope: Scope, body: TimedBody, answer: Answer, cap: int) -> None:
    spooled = SpooledBody(body)
    try:
        if await spooled.read(cap=cap):
            await application(_with_length(scope, spooled.length), spooled, answer)
    finally:
        spooled.close()


def _with_length(scope: Scope, length: int) -> Scope:
    headers: Headers = [(name, value) for name, value in scope["headers"] if name != b"transfer-encoding"]
    return {**scope, "headers": [*headers, (b"content-length", str(length).encode())]}


def _attributes(scope: Scope, route: str, status: int) -> tracing.Attributes:
    return {"http.request.method": method_of(scope), "http.route": route, "http.response.status_code": status}


def _log(scope: Scope, status: int, took_s: float, notes: Notes) -> None:
    """One line a request; status 0: the client left before it was answered. Probes are noise unless they fail."""
    level = "debug" if scope["path"] in PROBE_PATHS and status == 200 else "info"
    fields = {"method": scope["method"], "path": scope["path"][:256], "status": status}
    getattr(logger, level)("request", **fields, duration_ms=round(took_s * 1000, 1), **notes)
