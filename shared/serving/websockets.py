"""uvicorn's WebSocket protocol with what it leaves open: what a peer that does not read, sends many small pieces or
never says goodbye may cost; and a handshake that fails answered as JSON."""

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
from shared.observability.request_id import bound_request_id, new_request_id
from shared.serving.answers import problem_answer

MAX_MESSAGE_BYTES = 1024 * 1024
MAX_FRAGMENTS = 1024  # of one message: empty ones are not counted by its size
PING_EVERY_S = 15.0
NOT_READING_S = 30.0
GOODBYE_S = 5.0  # between our close and the end of the connection, whatever the peer does

OVERLOADED = 1013

logger = structlog.get_logger(__name__)
# Both libraries log what their peers say: paths with their query at info, whole messages at debug.
_wire_logger = logging.getLogger("stoa.websockets")
_wire_logger.setLevel(logging.WARNING)


class Handshake(ServerProtocol):
    """Refuses as every other error is answered."""

    def reject(self, status: Any, text: str) -> Response:
        refusal = super().reject(status, text)
        problem = Problem(
            status=refusal.status_code,
            code="invalid_request",
            message="This is not a valid WebSocket handshake (RFC 6455, version 13).",
            headers=getattr(settings, "API_HEADERS", {}),
        )
        kept = [(name, value) for name, value in refusal.headers.raw_items() if name.lower() in _OF_THE_HANDSHAKE]
        with bound_request_id(new_request_id()) as request_id:
            headers, body = problem_answer(problem, path="", request_id=request_id)
            logger.info("request", method="GET", path="", status=problem.status)
        told = [(name.decode(), value.decode()) for name, value in headers]
        return Response(refusal.status_code, refusal.reason_phrase, Headers([*kept, *told]), body)


_OF_THE_HANDSHAKE = ("date", "upgrade", "sec-websocket-version")


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """One connection. No compression: it costs memory for every one that is open."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = _wire_logger
        self.conn = Handshake(extensions=[], max_size=MAX_MESSAGE_BYTES, logger=_wire_logger)
        self.ping_interval = PING_EVERY_S
        self.ping_timeout = NOT_READING_S
        self._stall: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None
        self._lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        for timer in (self._stall, self._end):
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated:
            super().data_received(data)
            return
        self.conn.receive_data(data)  # the whole head, which was read as HTTP before
        self.handle_events()
        if not self.handshake_initiated:  # the parser has refused it, and answered
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def pause_writing(self) -> None:
        """Who does not read is not read from either: each ping asks for a pong."""
        super().pause_writing()
        self.transport.pause_reading()
        self._stall = self.loop.call_later(NOT_READING_S, self._cut)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall:
            self._stall.cancel()
            self._stall = None
        if not self.read_paused:
            self.transport.resume_reading()

    async def receive(self) -> Any:
        """The next event; reading goes on when none is left, unless the peer itself does not read."""
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            if self.writable.is_set():
                self.transport.resume_reading()
        return message

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self.conn.fail(1009, "too many fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not _is_utf8(b"".join(self.frames)):
            self.conn.fail(1007, "not UTF-8")
            self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        super().handle_parser_exception()
        self._over()

    def keepalive_timeout(self) -> None:
        """No pong: it has not read what we sent before."""
        self.pong_timer = None
        if not self.close_sent and not self.transport.is_closing():
            self._cut()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self._end_soon()

    def _cut(self) -> None:
        """Give the peer up: it is told, if it reads on after all, and the connection ends."""
        if not self.close_sent:
            self.conn.fail(OVERLOADED, "not reading")
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            self.queue.put_nowait({"type": "websocket.disconnect", "code": OVERLOADED, "reason": "not reading"})
        self._over()
        self._end_soon()

    def _over(self) -> None:
        """What the application still sends is refused as to a client that left."""
        self.disconnected = True
        self.writable.set()

    def _end_soon(self) -> None:
        """A closed transport waits until all of its buffer is sent, which may be never."""
        if self._end is None and not self._lost:
            self._end = self.loop.call_later(GOODBYE_S, self.transport.abort)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
