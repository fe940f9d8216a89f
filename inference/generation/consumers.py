"""The WebSocket consumer: authentication first, then concurrent inferences, each with an id that the client chooses."""

import asyncio
import contextlib
import json
import time
from typing import Any

import structlog
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import Error as DatabaseError

from inference.access.requests import MAX_INLINE_PARSE_BYTES, require_permission
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
    encode_pong,
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
from shared.serving.asgi.refusals import client_address_key, pacer
from shared.serving.asgi.request_checks import trace_headers
from shared.serving.asgi.turns import client_turns
from shared.serving.server.websocket_protocol import MAX_MESSAGE_BYTES

MAX_INFERENCES = 16  # that run at once on one connection
REFUSAL_WEIGHT = 3  # of pings, which cost less
AUTHENTICATION_TIMEOUT_SECONDS = 10.0

# Close codes.
NOT_AUTHENTICATED = 4401
POLICY_VIOLATION = 1008
OVERLOADED = 1013
DRAINING = 1012
DRAIN_RETRY_SECONDS = 5
DATABASE_RETRY_SECONDS = 2
BUSY_RETRY_SECONDS = 1
_FAILURES = (ErrorCode.INTERNAL_ERROR, ErrorCode.INFERENCE_FAILED, ErrorCode.TIMEOUT)

connections = ConnectionRegistry(max_per_user=settings.MAX_WEBSOCKETS_PER_USER)
logger = structlog.get_logger(__name__)


class GenerationConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One connection. It reads one message at a time; each inference is a task, and one task sends all messages."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._request_id = current_request_id()
        self._outbox = MessageOutbox(send, on_overflow=self._cancel_all)
        self._connection: AuthenticatedConnection | None = None
        self._credential = ""
        self._running: dict[str, asyncio.Task[None]] = {}
        self._cancelled: set[str] = set()
        self._rate_limit = MessageRateLimit()
        self._sender = asyncio.create_task(self._outbox.run())
        self._unauthenticated_slot = contextlib.ExitStack()
        self._authentication_timer = asyncio.get_running_loop().call_later(
            AUTHENTICATION_TIMEOUT_SECONDS, self._close_unauthenticated
        )
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._authentication_timer.cancel()
            await self._end()

    async def dispatch(self, message: Any) -> None:
        """Call the handler without Channels' thread hop that closes database connections: this consumer holds none."""
        await getattr(self, message["type"].replace(".", "_"))(message)

    async def connect(self) -> None:
        await self.accept()
        try:
            self._unauthenticated_slot.enter_context(
                connections.limit_unauthenticated((self.scope.get("client") or [""])[0])
            )
        except ApiError as error:
            self._close_with_error(error, OVERLOADED)

    async def websocket_disconnect(self, message: Any) -> None:
        """Cancel all inferences: nobody reads their output."""
        self._cancel_all()
        await super().websocket_disconnect(message)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._outbox.closing:
            return
        if not self._rate_limit.take():
            message = f"Too many messages: at most {MAX_MESSAGES_PER_SECOND:.0f} per second are read. Connect again."
            self._close_with_error(ApiError(429, message), POLICY_VIOLATION)
            return
        if self._connection is not None:  # before authentication the handshake has waited
            await pacer.hold(self._client)
            if self._outbox.closing:
                return
        value: dict[str, Any] = {}
        try:
            value = await self._parse_json(text_data)
            await self._handle(parse_client_message(value), value)
        except (ApiError, EngineError) as error:
            if self._connection is None:
                await self._reject_credential()
            else:
                self._send_error(error, read_inference_id(value))

    async def _parse_json(self, text: str | None) -> dict[str, Any]:
        if text is None:
            raise InvalidRequest("A message must be JSON as text, not binary.")
        raw = text.encode()
        if len(raw) <= MAX_INLINE_PARSE_BYTES:
            return parse_json(raw)
        return await client_turns.run(self._client, parse_json, raw, address=self._address)

    @property
    def _client(self) -> str:
        connection = self._connection
        return f"user:{connection.principal.user.pk}" if connection else self._address

    @property
    def _address(self) -> str:
        return client_address_key(self.scope)

    async def _handle(self, message: ClientMessage, value: dict[str, Any]) -> None:
        """Handle a client's message, of which `value` is the JSON. Raise ApiError or EngineError."""
        if isinstance(message, AuthMessage):
            await self._authenticate(message)
        elif self._connection is None:
            raise NotAuthenticated
        elif isinstance(message, InferenceMessage):
            self._start(message)
        elif isinstance(message, CancelMessage):
            self._cancel(message)
        elif isinstance(message, PingMessage):
            pacer.count(self._client)
            self._outbox.put_text(encode_pong(value))

    async def _authenticate(self, message: AuthMessage) -> None:
        """Authenticate the connection; a further `auth` renews its credential."""
        self._authentication_timer.cancel()  # the message came in time, even if its lookup takes long
        try:
            if self._connection is None:
                await check_failed_sign_ins(self.scope)
            principal = await _find_principal(message.token, client=self._client, address=self._address)
        except NotAuthenticated:
            await self._reject_credential()
            return
        except ApiError as error:
            self._close_with_error(error, POLICY_VIOLATION if error.problem.status == 429 else OVERLOADED)
            return
        connection = AuthenticatedConnection(principal, on_revoked=self._close_revoked, on_drain=self._drain)
        if self._connection:
            connections.unregister(self._connection)
        try:
            connections.register(connection)
        except ApiError as error:
            self._close_with_error(error, OVERLOADED)
            return
        self._connection, self._credential = connection, message.token
        self._unauthenticated_slot.close()
        user = principal.user
        scope = principal_limit_scopes(principal)[0]
        limits = WebSocketLimits(
            MAX_INFERENCES, MAX_MESSAGE_BYTES, scope.requests_per_minute, scope.tokens_per_minute, scope.max_concurrency
        )
        message_user = WebSocketUser(user.pk, user.email, user.role)
        self._outbox.put(AuthenticatedMessage(user=message_user, limits=limits, server_version=settings.VERSION))

    def _start(self, message: InferenceMessage) -> None:
        if is_draining():
            headers = {"Retry-After": str(DRAIN_RETRY_SECONDS)}
            raise ApiError(503, "The server is stopping. Connect again.", headers=headers)
        if message.id in self._running:
            raise InvalidRequest(
                "`id` must be unique: an inference with this id is running on this connection.", field="id"
            )
        if len(self._running) >= MAX_INFERENCES:
            text = f"At most {MAX_INFERENCES} inferences run at once on a connection. Wait for one to complete."
            raise ApiError(429, text, headers={"Retry-After": str(BUSY_RETRY_SECONDS)})
        self._running[message.id] = asyncio.create_task(self._run(message))

    def _cancel(self, message: CancelMessage) -> None:
        task = self._running.get(message.id)
        if task is None:
            raise InvalidRequest("`id` must be the id of an inference that is running on this connection.", field="id")
        self._cancelled.add(message.id)
        task.cancel()

    async def _run(self, message: InferenceMessage) -> None:
        """Run one inference with a request id and a log event of its own, like an HTTP request."""
        inference = WebSocketInference(message, self._outbox.put)
        started_at, outcome = time.monotonic(), "left"
        headers = trace_headers(self.scope["headers"])
        with bind_request_id(""), bind_fields() as fields, tracing.trace_request("websocket", headers=headers) as span:
            try:
                outcome = await inference.run(await self._authorize())
            except (ApiError, EngineError) as error:
                outcome = self._send_error(error, message.id)
            except asyncio.CancelledError:
                if message.id not in self._cancelled:
                    raise
                outcome = inference.finish_cancelled()
            except Exception:
                outcome = self._send_error(ApiError(500, Problem.from_status(500).message), message.id)
                logger.exception("socket_inference_failed")
            finally:
                self._forget(message.id)
                result = {"outcome": outcome, "duration_ms": round((time.monotonic() - started_at) * 1000, 1)}
                logger.info("socket_inference", path=self.scope["path"], **result, **fields)
                tracing.annotate_span(span, {"stoa.outcome": outcome}, failed=outcome in _FAILURES)

    async def _authorize(self) -> Principal:
        """Return the principal as it is now. Raise ApiError 401, 403, 429 or 503."""
        principal = await _find_principal(self._credential, client=self._client, address=self._address)
        raise_if_limited(await count_scopes(principal_limit_scopes(principal)))
        require_permission(principal, Permission.RUN_INFERENCE)
        return principal

    def _forget(self, inference_id: str) -> None:
        self._cancelled.discard(inference_id)
        self._running.pop(inference_id, None)
        if not self._running and is_draining():
            self._drain()

    def _cancel_all(self) -> None:
        for task in self._running.values():
            task.cancel()

    def _close_unauthenticated(self) -> None:
        if self._connection is None:
            self._close_with_error(NotAuthenticated(), NOT_AUTHENTICATED)

    async def _reject_credential(self) -> None:
        """Count the failed attempt and close the connection."""
        await count_failed_sign_in(self.scope)
        self._close_with_error(NotAuthenticated(), NOT_AUTHENTICATED)

    def _close_revoked(self) -> None:
        self._cancel_all()
        self._close_with_error(NotAuthenticated(), NOT_AUTHENTICATED)

    def _drain(self) -> None:
        """Close the connection once no inference is running."""
        if not self._running:
            self._outbox.close(DRAINING, "restarting")

    def _close_with_error(self, error: ApiError, code: int) -> None:
        self._send_error(error, None)
        self._outbox.close(code, "")

    def _send_error(self, error: ApiError | EngineError, inference_id: str | None) -> str:
        """Send the error in the form of the HTTP routes, and return its code. That of a client counts as a refusal."""
        problem = error.problem if isinstance(error, ApiError) else problem_from_engine_error(error)
        if problem.status < 500:
            pacer.count(self._client, weight=REFUSAL_WEIGHT)
        request_id = current_request_id() or self._request_id
        body = json.loads(error_body_bytes(problem, path=self.scope["path"], request_id=request_id))
        details = body["error"].get("details", {})
        if retry_after := problem.headers.get("Retry-After"):
            details["retry_after"] = int(retry_after)
        message = ErrorMessage(
            code=body["error"]["code"],
            message=body["error"]["message"],
            request_id=body["request_id"],
            id=inference_id,
            details=details or None,
        )
        self._outbox.put(message)
        return message.code

    async def _end(self) -> None:
        """Release everything that the connection holds."""
        self._unauthenticated_slot.close()
        if self._connection:
            connections.unregister(self._connection)
        tasks = [self._sender, *self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        with contextlib.suppress(asyncio.CancelledError, OSError):  # the client has disconnected
            self._sender.result()


async def _find_principal(credential: str, *, client: str, address: str) -> Principal:
    """Return the principal of a credential. Raise ApiError 401, and 503 while the database does not answer."""
    try:
        return await authenticate_in_thread(credential, client=client, address=address)
    except DatabaseError as error:
        if not is_transient_database_error(error):
            raise
        message = "The credential cannot be checked at the moment. Try again."
        raise ApiError(503, message, headers={"Retry-After": str(DATABASE_RETRY_SECONDS)}) from error
