"""uvicorn's WebSocket protocol with limits that uvicorn lacks.

It limits what a peer costs that does not read, sends many small fragments or never answers a close. A failed handshake
is answered as JSON.
"""

import asyncio
import logging
from typing import Any

import structlog
from django.conf import settings
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.http11 import Response
from websockets.server import ServerProtocol

from shared.api.errors import Problem
from shared.observability.request_id import bind_request_id, new_request_id
from shared.serving.asgi.responses import problem_response_parts

MAX_MESSAGE_BYTES = 1024 * 1024
MAX_FRAGMENT_COUNT = 1024  # of one message; empty fragments do not count towards its size
PING_INTERVAL_SECONDS = 15.0
WRITE_STALL_SECONDS = 30.0  # without the peer reading
CLOSE_TIMEOUT_SECONDS = 5.0  # from our close frame to the end of the connection

# Close codes of RFC 6455, section 7.4, and of its registry.
INVALID_PAYLOAD = 1007
MESSAGE_TOO_BIG = 1009
TRY_AGAIN_LATER = 1013

_HANDSHAKE_HEADERS = ("date", "upgrade", "sec-websocket-version")

logger = structlog.get_logger(__name__)
# uvicorn and websockets log what peers send: paths with their query at info, whole messages at debug.
_wire_logger = logging.getLogger("stoa.websockets")
_wire_logger.setLevel(logging.WARNING)


class JsonHandshake(ServerProtocol):
    """Handshake that is refused with the project's JSON errors."""

    def reject(self, status: Any, text: str) -> Response:
        refusal = super().reject(status, text)
        problem = Problem(
            status=refusal.status_code,
            code="invalid_request",
            message="This is not a valid WebSocket handshake (RFC 6455, version 13).",
            headers=getattr(settings, "API_HEADERS", {}),
        )
        protocol = [(name, value) for name, value in refusal.headers.raw_items() if name.lower() in _HANDSHAKE_HEADERS]
        with bind_request_id(new_request_id()) as request_id:
            headers, body = problem_response_parts(problem, path="", request_id=request_id)
            logger.info("request", method="GET", path="", status=problem.status)
        added = [(name.decode(), value.decode()) for name, value in headers]
        return Response(refusal.status_code, refusal.reason_phrase, Headers([*protocol, *added]), body)


class LimitedWebSocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket connection, without compression, which costs memory for every open connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = _wire_logger
        self.conn = JsonHandshake(extensions=[], max_size=MAX_MESSAGE_BYTES, logger=_wire_logger)
        self.ping_interval = PING_INTERVAL_SECONDS
        self.ping_timeout = WRITE_STALL_SECONDS
        self._stall_timer: asyncio.TimerHandle | None = None
        self._abort_timer: asyncio.TimerHandle | None = None
        self._is_lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        for timer in (self._stall_timer, self._abort_timer):
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated:
            super().data_received(data)
            return
        self.conn.receive_data(data)  # the whole head, which the HTTP protocol has read
        self.handle_events()
        if not self.handshake_initiated:  # the parser has refused it
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read: each of its pings would need a pong."""
        super().pause_writing()
        self.transport.pause_reading()
        self._stall_timer = self.loop.call_later(WRITE_STALL_SECONDS, self._give_up)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall_timer:
            self._stall_timer.cancel()
            self._stall_timer = None
        if not self.read_paused:
            self.transport.resume_reading()

    async def receive(self) -> Any:
        """Return the next event. Resume reading once the queue is empty, unless the peer itself does not read."""
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            if self.writable.is_set():
                self.transport.resume_reading()
        return message

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) >= MAX_FRAGMENT_COUNT:
            self.conn.fail(MESSAGE_TOO_BIG, "too many fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not _is_utf8(b"".join(self.frames)):
            self.conn.fail(INVALID_PAYLOAD, "not UTF-8")
            self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        super().handle_parser_exception()
        self._mark_disconnected()

    def keepalive_timeout(self) -> None:
        """Give up a peer that has not answered a ping."""
        self.pong_timer = None
        if not self.close_sent and not self.transport.is_closing():
            self._give_up()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self._abort_soon()

    def _give_up(self) -> None:
        """Send a close frame to a peer that does not read, and end the connection."""
        if not self.close_sent:
            self.conn.fail(TRY_AGAIN_LATER, "not reading")
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            self.queue.put_nowait({"type": "websocket.disconnect", "code": TRY_AGAIN_LATER, "reason": "not reading"})
        self._mark_disconnected()
        self._abort_soon()

    def _mark_disconnected(self) -> None:
        """Refuse what the application still sends, as to a client that has left."""
        self.disconnected = True
        self.writable.set()

    def _abort_soon(self) -> None:
        """Abort after CLOSE_TIMEOUT_SECONDS: a closed transport waits for its buffer to be sent, maybe forever."""
        if self._abort_timer is None and not self._is_lost:
            self._abort_timer = self.loop.call_later(CLOSE_TIMEOUT_SECONDS, self.transport.abort)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
