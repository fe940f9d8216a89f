"""Real servers that receive webhooks: well-behaved ones, broken ones, and hostile ones."""

import contextlib
import socket
import socketserver
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Received:
    """One request as it came; header names in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[["socket.socket", Received], None]


@dataclass
class Receiver:
    """A running server. `connections` counts them all, `received` has every whole request."""

    port: int
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.authority}/hook"


def answering(status: int, headers: str = "", body: bytes = b"thanks") -> Answer:
    """Whole answers of one kind."""

    def answer(peer: socket.socket, request: Received) -> None:
        head = f"HTTP/1.1 {status} As told\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        peer.sendall(head.encode() + body)

    return answer


def resetting(peer: socket.socket, request: Received) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def dripping(peer: socket.socket, request: Received) -> None:
    """One byte of its headers a second."""
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 100:
        peer.sendall(bytes([byte]))
        time.sleep(1)


def flooding(peer: socket.socket, request: Received) -> None:
    """A gibibyte of body, or as much of it as is taken."""
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
    for _ in range(1024):
        peer.sendall(b"x" * 1024 * 1024)


def chattering(peer: socket.socket, request: Received) -> None:
    """Informational answers without an end."""
    for _ in range(100_000):
        peer.sendall(b"HTTP/1.1 102 Processing\r\n\r\n" * 100)


def boasting(peer: socket.socket, request: Received) -> None:
    """Headers without an end."""
    peer.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in range(1_000_000):
        peer.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))


@contextlib.contextmanager
def receiving(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A server on a port of its own that answers like this."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            receiver.connections += 1
            self.request.settimeout(PATIENCE_S)
            with contextlib.suppress(OSError), self.peer() as peer:  # the other side may leave whenever it likes
                request = _read(peer)
                receiver.received.append(request)
                answer(peer, request)

        def peer(self) -> "contextlib.AbstractContextManager[socket.socket]":
            return tls.wrap_socket(self.request, server_side=True) if tls else contextlib.nullcontext(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True
        request_queue_size = 512

    with Server(("127.0.0.1", 0), Handler) as server:
        server.block_on_close = False
        receiver = Receiver(port=server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def _read(peer: socket.socket) -> Received:
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += _some(peer)
    head, _, body = raw.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += _some(peer)
    return Received(line, headers, body)


def _some(peer: socket.socket) -> bytes:
    if piece := peer.recv(65536):
        return piece
    raise ConnectionResetError
