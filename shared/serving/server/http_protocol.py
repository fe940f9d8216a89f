"""uvicorn's HTTP/1.1 protocol with limits that uvicorn lacks.

It limits the size and the time of a request's head, the requests that a client sends ahead of their responses, the
time that it may stop reading, and the number of connections. Parser errors are answered as JSON.
"""

import asyncio
import resource
from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import structlog
from django.conf import settings
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from shared.api.errors import Problem
from shared.api.limits.rate_limits import address_key
from shared.observability.request_id import bind_request_id, new_request_id
from shared.serving.asgi.refusals import client_address_key, pacer
from shared.serving.asgi.responses import problem_response_parts

MAX_HEAD_BYTES = 32 * 1024
PIECE_BYTES = 512  # parsed at a time, beside bodies: of requests that are sent ahead, no more wait parsed
CHUNKED_PIECE_BYTES = 2048  # of a body whose length is not known, and of what is sent behind it
HEAD_TIMEOUT_SECONDS = 20.0
WRITE_STALL_SECONDS = 30.0  # without the client reading
MAX_CONNECTIONS = 10_000
MAX_CONNECTIONS_PER_ADDRESS = 1024  # on which nobody has authenticated
MAX_CONNECTIONS_PER_USER = 1024  # further ones go on counting for their address
RESERVED_SHARE = 0.1  # of the connections, for requests with a credential
RESERVED_HEAD_TIMEOUT_SECONDS = 2.0
RESERVED_FILES = 200  # of the process's open files: for databases, files and models

PROBE_PATHS = frozenset({b"/livez", b"/readyz", b"/health"})  # of balancers, which have no credential
CREDENTIAL_HEADERS = frozenset({b"authorization", b"x-api-key", b"cookie"})

logger = structlog.get_logger(__name__)


def raise_connection_limit() -> int:
    """Raise the limit of open files as far as the system allows; return the maximum number of connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + RESERVED_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(MAX_CONNECTIONS, max(soft - RESERVED_FILES, soft // 2))


class HoldableFlow(FlowControl):
    """Flow control that can be held: uvicorn's reads on at each `receive`, even while parsed requests wait."""

    is_held = False

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()


class LimitedHttpProtocol(HttpToolsProtocol):
    """One HTTP connection.

    A connection past the limits gets a 503, a head (request line and headers) past MAX_HEAD_BYTES a 400. A head that
    takes too long, or a client that does not read, ends the connection. An address has only so many connections on
    which nobody has authenticated, and a user so many beside them. The last ones of the process are for requests with a
    credential, which `shared.serving.asgi.wrapper` verifies. While a request waits for the response to the one before
    it, nothing is parsed and nothing is read.
    """

    max_connections = MAX_CONNECTIONS  # of this process, with those of WebSockets
    counted: ClassVar[Counter[str]] = Counter()  # connections by address, and by user once one has authenticated

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.flow: HoldableFlow
        self._counted_for = ""
        self._is_authenticated = False
        self._needs_credential = False
        self._refusal: Problem | None = None
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._refusal_timer: asyncio.TimerHandle | None = None
        self._unparsed = bytearray()
        self._is_chunked = False
        self._body_left = 0  # bytes that may be parsed at once, since the present body has them

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = HoldableFlow(transport)
        self._needs_credential = len(self.connections) > self.max_connections - int(
            self.max_connections * RESERVED_SHARE
        )
        self._start_head_timer()
        if len(self.connections) > self.max_connections or not self._count_address():
            self._refuse(Problem.from_status(503, headers={"Retry-After": "1"}))

    def mark_authenticated(self, user_id: object) -> None:
        """Count the connection for the user of a request on it instead of for its address, unless it has many."""
        self._needs_credential = False
        user = f"user:{user_id}"
        if self._counted_for and not self._is_authenticated and self.counted[user] < MAX_CONNECTIONS_PER_USER:
            self._is_authenticated = True
            self._count_for(user)

    def _count_for(self, name: str) -> None:
        """Count the connection for this address or user alone, or for nobody."""
        if self._counted_for:
            self.counted[self._counted_for] -= 1
            if not self.counted[self._counted_for]:
                del self.counted[self._counted_for]
        self._counted_for = name
        if name:
            self.counted[name] += 1

    def handle_websocket_upgrade(self) -> None:
        self._unparsed.clear()
        self._count_for("")  # WebSockets have a limit of their own
        super().handle_websocket_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        self._unparsed.clear()  # it is not HTTP/1.1
        super()._unsupported_upgrade_warning()

    def _count_address(self) -> bool:
        """Count the connection for its address. Return False if the address has too many.

        The connections of proxies are those of their clients, whom the proxy limits.
        """
        if settings.TRUSTED_PROXY_COUNT or not self.client:
            return True
        address = address_key(self.client[0])
        self._count_for(address)
        return self.counted[address] <= MAX_CONNECTIONS_PER_ADDRESS

    def connection_lost(self, exc: Exception | None) -> None:
        self._count_for("")
        self._cancel_head_timer()
        self._cancel_stall_timer()
        if self._refusal_timer:
            self._refusal_timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the stall timer: the transport's buffer is full, and the application waits until it drains."""
        super().pause_writing()
        self._stall_timer = self.loop.call_later(WRITE_STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._cancel_stall_timer()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        self._parse()

    def on_response_complete(self) -> None:
        self.flow.is_held = False
        super().on_response_complete()  # starts the next request, and reads on
        self._parse()

    def _parse(self) -> None:
        """Parse what has arrived, up to the first request that has to wait for another's response."""
        while self._unparsed and not self.pipeline and not self._refusal_timer and not self.transport.is_closing():
            length = max(PIECE_BYTES, self._body_left)
            piece = bytes(self._unparsed[:length])
            del self._unparsed[:length]
            if self._head_timer:
                self._head_bytes += len(piece)
            super().data_received(piece)
            if self._head_timer and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("")
        if self._unparsed:
            self.flow.pause_reading()
            self.flow.is_held = True

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._head_timer:  # a further request on a keep-alive connection
            self._start_head_timer()

    def on_headers_complete(self) -> None:
        self._cancel_head_timer()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD_BYTES:
            raise ValueError("head too large")  # the parser reports it as its own error
        is_probe = self.url.partition(b"?")[0] in PROBE_PATHS
        if self._needs_credential and not is_probe and not any(name in CREDENTIAL_HEADERS for name, _ in self.headers):
            self._refusal = Problem.from_status(503, headers={"Retry-After": "1"})
            raise ValueError("no credential")
        headers = dict(self.headers)
        self._is_chunked = b"transfer-encoding" in headers
        self._body_left = CHUNKED_PIECE_BYTES if self._is_chunked else int(headers.get(b"content-length", b"0"))
        self.scope["stoa.mark_authenticated"] = self.mark_authenticated  # type: ignore[typeddict-unknown-key]
        self.scope["stoa.needs_credential"] = self._needs_credential  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()
        if self.parser.should_upgrade() and not self._should_upgrade():
            self.cycle.keep_alive = False  # what follows is not HTTP/1.1

    def on_body(self, body: bytes) -> None:
        if not self._is_chunked:
            self._body_left -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._body_left = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer data that is not a valid request, later to an address that goes on with such data.

        The parser's own message is not sent to clients.
        """
        if self._refusal_timer:
            return
        wait = 0.0
        if self.client and not self._refusal and not self._needs_credential and not settings.TRUSTED_PROXY_COUNT:
            client = client_address_key({"client": self.client})
            pacer.count(client)
            wait = pacer.wait_seconds(client)
        if wait > 0:
            self._cancel_head_timer()
            self.flow.pause_reading()
            self._refusal_timer = self.loop.call_later(wait, self._refuse_data)
        else:
            self._refuse_data()

    def _refuse_data(self) -> None:
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()  # in the middle of another response
            return
        problem = self._refusal or Problem(
            status=400,
            code="invalid_request",
            message=f"This is not a valid HTTP/1.1 request, or its head is larger than {MAX_HEAD_BYTES} bytes.",
        )
        self._refuse(problem)

    def _refuse(self, problem: Problem) -> None:
        if self.transport.is_closing():
            return
        problem = replace(problem, headers=getattr(settings, "API_HEADERS", {}) | problem.headers)
        with bind_request_id(new_request_id()) as request_id:
            headers, body = problem_response_parts(problem, path="", request_id=request_id)
            logger.info("request", method="", path="", status=problem.status)
        head = b"".join(b"%b: %b\r\n" % pair for pair in [*self.server_state.default_headers, *headers])
        self.transport.write(STATUS_LINE[problem.status] + head + b"\r\n" + body)
        self.transport.close()

    def _cancel_stall_timer(self) -> None:
        if self._stall_timer:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _start_head_timer(self) -> None:
        self._head_bytes = 0
        seconds = RESERVED_HEAD_TIMEOUT_SECONDS if self._needs_credential else HEAD_TIMEOUT_SECONDS
        self._head_timer = self.loop.call_later(seconds, self._end_slow_head)

    def _end_slow_head(self) -> None:
        if self.flow.read_paused:  # the rest of the head waits for the response to another request
            self._start_head_timer()
        else:
            self.transport.close()

    def _cancel_head_timer(self) -> None:
        if self._head_timer:
            self._head_timer.cancel()
            self._head_timer = None
