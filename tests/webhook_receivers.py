"""Real servers that receive webhooks: well-behaved, broken and hostile."""

import contextlib
import socket
import socketserver
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class ReceivedRequest:
    """A received request; header names are in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes


ResponseWriter = Callable[["socket.socket", ReceivedRequest], None]


@dataclass
class Receiver:
    """A running server. `connections` counts all, `received` has the complete requests."""

    port: int
    received: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.authority}/hook"


def respond_with(status: int, headers: str = "", body: bytes = b"thanks") -> ResponseWriter:
    """Return a writer of this response."""

    def answer(peer: socket.socket, request: ReceivedRequest) -> None:
        head = f"HTTP/1.1 {status} As told\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        peer.sendall(head.encode() + body)

    return answer


def reset_connection(peer: socket.socket, request: ReceivedRequest) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def drip_headers(peer: socket.socket, request: ReceivedRequest) -> None:
    """Send one byte of the headers each second."""
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 100:
        peer.sendall(bytes([byte]))
        time.sleep(1)


def flood_body(peer: socket.socket, request: ReceivedRequest) -> None:
    """Send a body of 1 GiB, or as much as the client reads."""
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
    for _ in range(1024):
        peer.sendall(b"x" * 1024 * 1024)


def send_endless_informational(peer: socket.socket, request: ReceivedRequest) -> None:
    """Send informational responses without end."""
    for _ in range(100_000):
        peer.sendall(b"HTTP/1.1 102 Processing\r\n\r\n" * 100)


def send_endless_headers(peer: socket.socket, request: ReceivedRequest) -> None:
    """Send headers without end."""
    peer.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in range(1_000_000):
        peer.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))


@contextlib.contextmanager
def running_receiver(answer: ResponseWriter, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Run a server that writes these responses, on a free port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            receiver.connections += 1
            self.request.settimeout(TIMEOUT_SECONDS)
            with contextlib.suppress(OSError), self.peer() as peer:  # the client may disconnect at any time
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


def _read(peer: socket.socket) -> ReceivedRequest:
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += _some(peer)
    head, _, body = raw.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += _some(peer)
    return ReceivedRequest(line, headers, body)


def _some(peer: socket.socket) -> bytes:
    if piece := peer.recv(65536):
        return piece
    raise ConnectionResetError
