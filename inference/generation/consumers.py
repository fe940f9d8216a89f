"""The WebSocket: a credential first, then many inferences at once, told apart by names that the client gives them."""

import asyncio
import contextlib
import json
import time
from typing import Any

import structlog
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import Error as DatabaseError

from inference.access.requests import MAX_INLINE_PARSE_BYTES
from inference.access.responses import problem_from_engine_error
from inference.engine import EngineError, InvalidRequest
from inference.generation.message_rate_limit import MAX_MESSAGES_PER_SECOND, MessageRateLimit
from inference.generation.outbox import MessageOutbox
from inference.generation.websocket_inference import WebSocketInference
from inference.protocol.errors import ErrorCode
from inference.protocol.native.websocket import (
    AuthenticatedMessage,
    AuthMessage,
    CancelMessage,
    ClientMessage,
    ErrorMessage,
    InferenceMessage,
    PingMessage,
    WebSocketLimits,
    WebSocketUser,
    parse_client_message,
    read_inference_id,
)
from inference.usage.request_limits import check_failed_sign_ins, count_failed_sign_in, count_scopes
from inference.usage.scopes import principal_limit_scopes
from shared.accounts.authentication import NotAuthenticated, Principal
from shared.accounts.middleware.connections import AuthenticatedConnection, ConnectionRegistry, authenticate_in_thread
from shared.accounts.roles import Permission
from shared.api.errors import ApiError, Problem, error_body_bytes
from shared.api.limits.rate_limits import raise_if_limited
from shared.api.middleware.errors import is_transient_database_error
from shared.api.parsers import parse_json
from shared.observability import tracing
from shared.observability.health import is_draining
from shared.observability.request_fields import bind_fields
from shared.observability.request_id import bind_request_id, current_request_id
from shared.serving.asgi.request_checks import trace_headers
from shared.serving.server.websocket_protocol import MAX_MESSAGE_BYTES

MAX_INFERENCES = 16
AUTHENTICATED_WITHIN_S = 10.0

NOT_AUTHENTICATED = 4401
POLICY = 1008
OVERLOADED = 1013
DRAINING = 1012
DRAIN_RETRY_S = 5
DATABASE_RETRY_S = 2
_BROKEN = (ErrorCode.INTERNAL_ERROR, ErrorCode.INFERENCE_FAILED, ErrorCode.TIMEOUT)

attendance = ConnectionRegistry(max_per_user=settings.MAX_WEBSOCKETS_PER_USER)
logger = structlog.get_logger(__name__)


class GenerationConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One socket. Its receiving end reads a message at a time; each inference is a task; one task sends."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._request_id = current_request_id()
        self._outbox = MessageOutbox(send, on_overflow=self._stop_all)
        self._attendant: AuthenticatedConnection | None = None
        self._credential = ""
        self._running: dict[str, asyncio.Task[None]] = {}
        self._cancelled: set[str] = set()
        self._allowance = MessageRateLimit()
        self._sender = asyncio.create_task(self._outbox.run())
        self._door = contextlib.ExitStack()
        self._late = asyncio.get_running_loop().call_later(AUTHENTICATED_WITHIN_S, self._end_if_nobody)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._late.cancel()
            await self._end()

    async def dispatch(self, message: Any) -> None:
        """As Channels does, less its trip to a thread to look at database connections: none is kept here."""
        await getattr(self, message["type"].replace(".", "_"))(message)

    async def connect(self) -> None:
        await self.accept()
        try:
            self._door.enter_context(attendance.limit_unauthenticated((self.scope.get("client") or [""])[0]))
        except ApiError as error:
            self._close_as(error, OVERLOADED)

    async def websocket_disconnect(self, message: Any) -> None:
        """A generation has nobody left to write for."""
        self._stop_all()
        await super().websocket_disconnect(message)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._outbox.closing:
            return
        if not self._allowance.take():
            message = f"Too many messages: at most {MAX_MESSAGES_PER_SECOND:.0f} a second are read here. Connect again."
            self._close_as(ApiError(429, message), POLICY)
            return
        value: dict[str, Any] = {}
        try:
            value = await _json(text_data)
            await self._take(parse_client_message(value))
        except (ApiError, EngineError) as error:
            if self._attendant is None:
                await self._turn_away()
            else:
                self._tell_error(error, read_inference_id(value))

    async def _take(self, frame: ClientMessage) -> None:
        """Raises ApiError and EngineError."""
        if isinstance(frame, AuthMessage):
            await self._authenticate(frame)
        elif self._attendant is None:
            raise NotAuthenticated
        elif isinstance(frame, InferenceMessage):
            self._start(frame)
        elif isinstance(frame, CancelMessage):
            self._cancel(frame)
        elif isinstance(frame, PingMessage):
            self._outbox.put_text(frame.pong())

    async def _authenticate(self, frame: AuthMessage) -> None:
        """A further `auth` renews the credential before its end."""
        self._late.cancel()  # it came in time, though a database that is away may take as long to look it up
        try:
            if self._attendant is None:
                await check_failed_sign_ins(self.scope)
            principal = await _authenticated(frame.token)
        except NotAuthenticated:
            await self._turn_away()
            return
        except ApiError as error:
            self._close_as(error, POLICY if error.problem.status == 429 else OVERLOADED)
            return
        attendant = AuthenticatedConnection(principal, on_revoked=self._lose, on_drain=self._drain)
        if self._attendant:
            attendance.unregister(self._attendant)
        try:
            attendance.register(attendant)
        except ApiError as error:
            self._close_as(error, OVERLOADED)
            return
        self._attendant, self._credential = attendant, frame.token
        self._door.close()
        user = principal.user
        own = principal_limit_scopes(principal)[0]
        limits = WebSocketLimits(
            MAX_INFERENCES, MAX_MESSAGE_BYTES, own.requests_per_minute, own.tokens_per_minute, own.max_concurrency
        )
        told = WebSocketUser(user.pk, user.email, user.role)
        self._outbox.put(AuthenticatedMessage(user=told, limits=limits, server_version=settings.VERSION))

    def _start(self, frame: InferenceMessage) -> None:
        if is_draining():
            headers = {"Retry-After": str(DRAIN_RETRY_S)}
            raise ApiError(503, "This server is about to stop. Connect again.", headers=headers)
        if frame.id in self._running:
            raise InvalidRequest("An inference with this id runs on this socket: give each its own.", field="id")
        if len(self._running) >= MAX_INFERENCES:
            raise ApiError(
                429, f"At most {MAX_INFERENCES} inferences run at once on a socket: wait for one to complete."
            )
        self._running[frame.id] = asyncio.create_task(self._run(frame))

    def _cancel(self, frame: CancelMessage) -> None:
        task = self._running.get(frame.id)
        if task is None:
            raise InvalidRequest("No inference with this id runs on this socket.", field="id")
        self._cancelled.add(frame.id)
        task.cancel()

    async def _run(self, frame: InferenceMessage) -> None:
        """One inference from its rights to its end, with a request id and a log line of its own, as over HTTP."""
        inference = WebSocketInference(frame, self._outbox.put)
        began, outcome = time.monotonic(), "left"
        headers = trace_headers(self.scope["headers"])
        with bind_request_id(""), bind_fields() as notes, tracing.trace_request("websocket", headers=headers) as span:
            try:
                outcome = await inference.run(await self._caller())
            except (ApiError, EngineError) as error:
                outcome = self._tell_error(error, frame.id)
            except asyncio.CancelledError:
                if frame.id not in self._cancelled:
                    raise
                outcome = inference.cancelled()
            except Exception:
                outcome = self._tell_error(ApiError(500, Problem.from_status(500).message), frame.id)
                logger.exception("socket_inference_failed")
            finally:
                self._forget(frame.id)
                told = {"outcome": outcome, "duration_ms": round((time.monotonic() - began) * 1000, 1)}
                logger.info("socket_inference", path=self.scope["path"], **told, **notes)
                tracing.annotate_span(span, {"stoa.outcome": outcome}, failed=outcome in _BROKEN)

    async def _caller(self) -> Principal:
        """Who asks, as of now. Raises ApiError 401, 403, 429, 503."""
        principal = await _authenticated(self._credential)
        raise_if_limited(await count_scopes(principal_limit_scopes(principal)))
        if not principal.has_permission(Permission.RUN_INFERENCE):
            needed = Permission.RUN_INFERENCE
            raise ApiError(403, f"This needs the permission {needed}, which your user or key does not have.")
        return principal

    def _forget(self, inference_id: str) -> None:
        self._cancelled.discard(inference_id)
        self._running.pop(inference_id, None)
        if not self._running and is_draining():
            self._drain()

    def _stop_all(self) -> None:
        for task in self._running.values():
            task.cancel()

    def _end_if_nobody(self) -> None:
        if self._attendant is None:
            self._close_as(NotAuthenticated(), NOT_AUTHENTICATED)

    async def _turn_away(self) -> None:
        """Who says who they are wrongly, or not at all."""
        await count_failed_sign_in(self.scope)
        self._close_as(NotAuthenticated(), NOT_AUTHENTICATED)

    def _lose(self) -> None:
        self._stop_all()
        self._close_as(NotAuthenticated(), NOT_AUTHENTICATED)

    def _drain(self) -> None:
        """What runs may end."""
        if not self._running:
            self._outbox.close(DRAINING, "restarting")

    def _close_as(self, error: ApiError, code: int) -> None:
        self._tell_error(error, None)
        self._outbox.close(code, "")

    def _tell_error(self, error: ApiError | EngineError, inference_id: str | None) -> str:
        """Tells it as over HTTP; answers its code."""
        problem = error.problem if isinstance(error, ApiError) else problem_from_engine_error(error)
        request_id = current_request_id() or self._request_id
        told = json.loads(error_body_bytes(problem, path=self.scope["path"], request_id=request_id))
        details = told["error"].get("details", {})
        if retry_after := problem.headers.get("Retry-After"):
            details["retry_after"] = int(retry_after)
        frame = ErrorMessage(
            code=told["error"]["code"],
            message=told["error"]["message"],
            request_id=told["request_id"],
            id=inference_id,
            details=details or None,
        )
        self._outbox.put(frame)
        return frame.code

    async def _end(self) -> None:
        """Nothing of this socket is left behind."""
        self._door.close()
        if self._attendant:
            attendance.unregister(self._attendant)
        tasks = [self._sender, *self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        with contextlib.suppress(asyncio.CancelledError, OSError):  # the client had left
            self._sender.result()


async def _authenticated(credential: str) -> Principal:
    """Whose it is. Raises ApiError 401, and 503 while the database does not answer."""
    try:
        return await authenticate_in_thread(credential)
    except DatabaseError as error:
        if not is_transient_database_error(error):
            raise
        message = "The server cannot look up who you are just now. Try again."
        raise ApiError(503, message, headers={"Retry-After": str(DATABASE_RETRY_S)}) from error


async def _json(text: str | None) -> dict[str, Any]:
    if text is None:
        raise InvalidRequest("Send text messages with JSON in them, not binary ones.")
    raw = text.encode()
    return await asyncio.to_thread(parse_json, raw) if len(raw) > MAX_INLINE_PARSE_BYTES else parse_json(raw)
