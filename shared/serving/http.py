"""uvicorn's HTTP/1.1 protocol with what it leaves open: limits for the size and the time of a request's head, for how
long an answer waits to be read and for how many connections there are, and errors of the parser answered as JSON."""

import asyncio
import resource
from dataclasses import replace
from typing import Any

import structlog
from django.conf import settings
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from shared.api.errors import Problem
from shared.observability.request_id import bound_request_id, new_request_id
from shared.serving.answers import problem_answer

MAX_HEAD_BYTES = 32 * 1024
HEAD_TIMEOUT_S = 20.0
NOT_READING_S = 30.0
MOST_CONNECTIONS = 10_000
FILES_KEPT = 200  # of those that the system lets a process open: for databases, files and models

logger = structlog.get_logger(__name__)


def most_connections() -> int:
    """As many as we take, or as the system's limit of open files leaves room for. Lifts that limit as far as it may."""
    lifted, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + FILES_KEPT
    if lifted < wanted:
        lifted = wanted if highest == resource.RLIM_INFINITY else min(wanted, highest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lifted, highest))
    return min(MOST_CONNECTIONS, max(lifted - FILES_KEPT, lifted // 2))


class HttpProtocol(HttpToolsProtocol):
    """One connection. One too many is refused, as is a head (request line and headers) that is too large; one that is
    too slow is cut, and so is who does not read what is sent."""

    most_connections = MOST_CONNECTIONS  # of this process, those of WebSockets among them

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > self.most_connections:
            self._refuse(Problem.of_status(503, headers={"Retry-After": "1"}))

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        self._reads_again()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The transport holds more than it should; the application waits until it has less."""
        super().pause_writing()
        self._stall = self.loop.call_later(NOT_READING_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._reads_again()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._head_timer:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_timer and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._head_timer:  # a further request on a kept connection
            self._await_head()

    def on_headers_complete(self) -> None:
        self._head_is_here()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD_BYTES:
            raise ValueError("head too large")  # the parser passes it on as its own error
        super().on_headers_complete()
        if self.parser.should_upgrade() and not self._should_upgrade():
            self.cycle.keep_alive = False  # what follows is not HTTP/1.1, so nothing after this answer can be read

    def send_400_response(self, msg: str) -> None:
        """Answer what could not be read as a request; the parser's words are for its authors, not for clients."""
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()  # in the middle of another answer
            return
        problem = Problem(
            status=400,
            code="invalid_request",
            message=f"This is not a valid HTTP/1.1 request, or its head is larger than {MAX_HEAD_BYTES} bytes.",
        )
        self._refuse(problem)

    def _refuse(self, problem: Problem) -> None:
        problem = replace(problem, headers=getattr(settings, "API_HEADERS", {}) | problem.headers)
        with bound_request_id(new_request_id()) as request_id:
            headers, body = problem_answer(problem, path="", request_id=request_id)
            logger.info("request", method="", path="", status=problem.status)
        head = b"".join(b"%b: %b\r\n" % pair for pair in [*self.server_state.default_headers, *headers])
        self.transport.write(STATUS_LINE[problem.status] + head + b"\r\n" + body)
        self.transport.close()

    def _reads_again(self) -> None:
        if self._stall:
            self._stall.cancel()
            self._stall = None

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _head_is_here(self) -> None:
        if self._head_timer:
            self._head_timer.cancel()
            self._head_timer = None
