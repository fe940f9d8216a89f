"""Life cycle of the server: listening, draining and ending."""

import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest
from pytest_django import Settings

from shared.serving.server.http_protocol import raise_connection_limit
from shared.serving.server.uvicorn_server import CannotServe, serve
from tests.shared.serving.conftest import Served, StartServer


@contextmanager
def running_streams(served: Served, count: int) -> Iterator[list[socket.socket]]:
    """Open connections on which a stream of five seconds has started."""
    with ExitStack() as stack:
        streams = [
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60)) for _ in range(count)
        ]
        for stream in streams:
            stream.sendall(b"GET /stream?50 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for stream in streams:
            assert stream.recv(12) == b"HTTP/1.1 200"
        yield streams


def rest_of(stream: socket.socket) -> bytes:
    said = b""
    while piece := stream.recv(65536):
        said += piece
    return said


def wait_until_running(served: Served, count: int) -> None:
    """Wait until the server runs this many requests, by its connections."""
    deadline = time.monotonic() + 60
    while len([c for c in connections(served.process.pid) if c == "ESTABLISHED"]) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def connections(pid: int) -> list[str]:
    return [connection.status for connection in psutil.Process(pid).net_connections("tcp")]


def test_s12_twenty_running_streams_complete_while_new_requests_get_503(start_server: StartServer):
    served = start_server()
    with running_streams(served, 20) as streams:
        served.process.send_signal(signal.SIGTERM)
        served.wait_for_line("draining")

        refused = served.get("/echo")
        assert refused.status_code == 503
        assert refused.json()["code"] == "unavailable"
        assert int(refused.headers["retry-after"]) > 0
        assert served.get("/readyz").status_code == 503
        assert served.get("/livez").status_code == 200

        endings = [rest_of(stream) for stream in streams]
    assert [b"data: [DONE]\n\n\r\n0\r\n\r\n" in ending for ending in endings] == [True] * 20
    assert served.process.wait(timeout=60) == 0
    served.wait_for_line("stopped")


def test_an_idle_server_ends_at_once_with_0(start_server: StartServer):
    served = start_server()
    with httpx2.Client(timeout=60) as idle:
        idle.get(f"{served.url}/echo")
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=60) == 0


def test_s12_a_second_sigterm_ends_the_drain(start_server: StartServer):
    served = start_server()
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until_running(served, 1)
        served.process.send_signal(signal.SIGTERM)
        served.wait_for_line("draining")
        with pytest.raises(subprocess.TimeoutExpired):
            served.process.wait(timeout=0.5)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=60) != 0


def test_requests_that_outlast_the_drain_are_cut(start_server: StartServer):
    served = start_server(serve={"drain_s": 0.5})
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until_running(served, 1)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=60) == 0


def test_a_thread_that_never_ends_does_not_keep_the_server_running(start_server: StartServer):
    served = start_server(serve={"drain_s": 0.2})
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.sendall(b"GET /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until_running(served, 1)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=60) != 0


def test_it_listens_on_a_unix_socket_that_only_its_owner_can_reach(start_server: StartServer, tmp_path: Path):
    path = tmp_path / "web.sock"
    served = start_server(serve={"uds": str(path)})
    with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path)), timeout=60) as client:
        assert client.get("http://localhost/echo").json()["client"] is None
    assert path.stat().st_mode & 0o777 == 0o600
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=60) == 0
    assert not path.exists()


def test_a_port_in_use_is_an_error_that_says_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotServe, match=f"Port {port} of 127.0.0.1 is taken: choose another with --port"):
            serve("nothing:here", port=port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])  # noqa: S104 - must be refused
def test_x1_a_public_address_is_refused_outside_production(host: str):
    with pytest.raises(CannotServe, match=r"DJANGO_SETTINGS_MODULE=\w+\.config\.settings\.production"):
        serve("nothing:here", host=host, port=0)


def test_a_slow_head_is_cut_while_others_are_served(start_server: StartServer):
    served = start_server(head_timeout_s=0.5)
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as slow:
        slow.sendall(b"GET /echo HTTP/1.1\r\n")
        assert served.get("/echo").status_code == 200
        assert slow.recv(1) == b""


@pytest.mark.timeout(600)
def test_r6_slow_clients_are_cut_and_delay_nobody_else(start_server: StartServer, whole: bool):
    heads, bodies, readers = (500, 200, 200) if whole else (50, 20, 20)
    served = start_server(head_timeout_s=4, body_timeout_s=4, write_stall_s=4)
    begun = [
        *[b"GET /echo HTTP/1.1\r\nHost: localhost\r\nX-Slow: "] * heads,
        *[b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf"] * bodies,
        *[b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n"] * readers,
    ]
    with ExitStack() as stack:
        for said in begun:
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60))
            slow.sendall(said)
        for _ in range(20):
            assert served.get("/echo").status_code == 200
        deadline = time.monotonic() + 120
        while "ESTABLISHED" in connections(served.process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert served.get("/echo").status_code == 200


def test_r6_a_connection_over_the_limit_is_refused_until_another_ends(start_server: StartServer):
    served = start_server(max_connections=3)
    with ExitStack() as stack:
        for _ in range(3):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=10))
            idle.sendall(b"GET /echo HTTP/1.1\r\n")
        until_established(served.process.pid, 3)
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as refused:
            said = b"".join(iter(lambda: refused.recv(4096), b""))
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in said
        assert b"connection: close\r\n" in said
    until_established(served.process.pid, 0)
    assert served.get("/echo").status_code == 200


def until_established(pid: int, count: int) -> None:
    deadline = time.monotonic() + 60
    while connections(pid).count("ESTABLISHED") != count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_connection_limit_leaves_open_files_for_others(monkeypatch: pytest.MonkeyPatch):
    lifted: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: lifted.append(limits))
    for limits, taken in {(1024, 65536): 10_000, (1024, 4096): 3896, (256, 256): 128, (65536, 65536): 10_000}.items():
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=limits: limits)
        assert raise_connection_limit() == taken
    assert lifted == [(10_200, 65536), (4096, 4096), (256, 256)]


def test_with_reload_a_changed_file_restarts_the_server(start_server: StartServer):
    served = start_server(serve={"reload": True})
    first = served.wait_for_line("serving")["pid"]
    deadline = time.monotonic() + 60
    while served.lines()[-1]["event"] != "serving" or served.lines()[-1]["pid"] == first:
        assert time.monotonic() < deadline
        if not any(
            line["event"] == "draining" for line in served.lines()
        ):  # the watcher may still read the files for the first time
            os.utime(Path(__file__).parents[1] / "wrapped.py")
        time.sleep(1)
    assert served.get("/echo").status_code == 200
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(timeout=60) == 0


HALF_SENT_HEAD = b"GET /echo HTTP/1.1\r\nHost: loc"


def opened(stack: ExitStack, served: Served, count: int, sent: bytes) -> list[socket.socket]:
    """Open connections one after the other, and send the bytes on each."""
    connections = []
    for _ in range(count):
        connections.append(stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60)))
        connections[-1].sendall(sent)
    return connections


def whole_response(connection: socket.socket) -> bytes:
    """Read a response of one chunk or more, so that the next one starts the next reading."""
    response = b""
    while not response.endswith(b"0\r\n\r\n"):
        response += connection.recv(65536)
    return response


def request(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "\r\n"]).encode()


def test_n9_an_address_has_so_many_connections_on_which_nobody_has_authenticated(start_server: StartServer):
    served = start_server(max_connections_per_address=5)
    with ExitStack() as stack:
        (signed_in,) = opened(stack, served, 1, request("/signed_in"))
        assert whole_response(signed_in).startswith(b"HTTP/1.1 200")
        for streamed in opened(stack, served, 2, request("/signed_in_stream")):
            assert streamed.recv(12) == b"HTTP/1.1 200"
        half_sent = opened(stack, served, 5, HALF_SENT_HEAD)
        (refused,) = opened(stack, served, 1, b"")
        assert refused.recv(12) == b"HTTP/1.1 503"
        signed_in.sendall(request("/signed_in"))
        assert whole_response(signed_in).startswith(b"HTTP/1.1 200")
        half_sent[0].sendall(b"alhost\r\n\r\n")
        assert half_sent[0].recv(12) == b"HTTP/1.1 200"
        half_sent[0].close()
        half_sent[1].close()
        wait_until_running(served, 6)
        (free,) = opened(stack, served, 1, request("/echo"))
        assert free.recv(12) == b"HTTP/1.1 200"


def test_n9_a_user_has_so_many_connections_beside_those_of_the_address(start_server: StartServer):
    served = start_server(max_connections_per_address=4, max_connections_per_user=3)
    with ExitStack() as stack:
        for signed_in in opened(stack, served, 7, request("/signed_in")):
            assert whole_response(signed_in).startswith(b"HTTP/1.1 200")
        (refused,) = opened(stack, served, 1, request("/signed_in"))
        assert refused.recv(12) == b"HTTP/1.1 503"


def test_n9_the_connections_of_a_trusted_proxy_are_not_counted_for_its_address(start_server: StartServer):
    served = start_server(max_connections_per_address=2, settings={"TRUSTED_PROXY_COUNT": 1})
    with ExitStack() as stack:
        for client in opened(stack, served, 5, request("/echo")):
            assert client.recv(12) == b"HTTP/1.1 200"


@pytest.fixture
def full(start_server: StartServer) -> Iterator[Served]:
    """Run a server whose connections are all open but for the reserved ones."""
    served = start_server(max_connections=20)
    with ExitStack() as stack:
        for client in opened(stack, served, 18, request("/echo")):
            assert client.recv(12) == b"HTTP/1.1 200"
        yield served


def test_n9_the_last_connections_are_for_requests_with_a_credential(full: Served):
    with ExitStack() as stack:
        for headers in ([], ["Authorization: Bearer x"], ["X-Api-Key: x"], ["Cookie: theme=dark"]):
            (refused,) = opened(stack, full, 1, request("/echo", *headers))
            response = rest_of(refused)  # until the server closes the connection
            assert response.startswith(b"HTTP/1.1 503")
            assert b"\r\nretry-after: 1\r\n" in response


def test_n9_a_reserved_connection_closes_unless_the_request_is_authenticated(full: Served):
    with ExitStack() as stack:
        for answered in (request("/echo", "Cookie: sessionid=x"), request("/livez")):
            response = rest_of(opened(stack, full, 1, answered)[0])
            assert response.startswith(b"HTTP/1.1 200")
            assert b"\r\nconnection: close\r\n" in response
        (signed_in,) = opened(stack, full, 1, request("/signed_in", "Cookie: sessionid=x"))
        for _ in range(2):
            assert whole_response(signed_in).startswith(b"HTTP/1.1 200")
            signed_in.sendall(request("/echo"))


def test_n9_a_body_on_a_reserved_connection_begins_soon(full: Served):
    with ExitStack() as stack:
        (slow,) = opened(stack, full, 1, request("/echo", "Cookie: sessionid=x", "Content-Length: 9"))
        began = time.monotonic()
        assert rest_of(slow).startswith(b"HTTP/1.1 408")
        assert time.monotonic() - began < 10


def test_n13_a_folder_that_cannot_be_written_is_one_sentence(settings: Settings):
    settings.METRICS_DIR = Path("/proc/metrics")
    with pytest.raises(CannotServe, match="/proc cannot be written: "):
        serve("tests.shared.serving.wrapped:application")
