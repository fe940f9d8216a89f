"""The ASGI wrapper around Django, as clients of a real server see it."""

import asyncio
import gzip
import json
import os
import socket
import time
from contextlib import ExitStack, suppress

import httpx2
import psutil
import pytest

from shared.serving.asgi.wrapper import wrap
from tests.shared.serving.conftest import Served, StartServer

MIB = 1024 * 1024


def chunked(size: int, piece: int = 65536):
    while size > 0:
        yield b"x" * min(size, piece)
        size -= piece


def raw(served: Served, request: bytes, timeout: float = 10) -> bytes:
    """Send bytes, and return everything the server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=timeout) as connection:
        connection.sendall(request)
        said = b""
        while piece := connection.recv(65536):
            said += piece
    return said


def problem_of(said: bytes) -> tuple[int, dict[str, str]]:
    head, _, body = said.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)


def test_a_valid_request_id_is_used_and_an_invalid_one_replaced(served: Served):
    assert served.get("/echo", headers={"X-Request-Id": "mine-1.a_B"}).headers["x-request-id"] == "mine-1.a_B"
    for hostile in ("a b", "x" * 129, "<script>", ""):
        made = served.get("/echo", headers={"X-Request-Id": hostile}).headers["x-request-id"]
        assert made.startswith("req_")
        assert made != hostile


def test_every_response_is_one_log_line_with_the_clients_request_id(served: Served):
    answer = served.get("/echo?secret=hunter2")
    line = served.wait_for_line("request", request_id=answer.headers["x-request-id"])
    assert (line["method"], line["path"], line["status"]) == ("GET", "/echo", 200)
    assert "hunter2" not in served.log.read_text()


def test_a_slash_at_the_end_of_a_path_below_the_prefix_is_removed_for_every_method():
    seen: list[tuple[str, str, bytes]] = []

    async def application(scope, receive, send):
        seen.append((scope["method"], scope["path"], scope["raw_path"]))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def call(method: str, path: str) -> None:
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"a=1/"}
        headers = [(b"host", b"localhost")]
        with suppress(KeyError):
            await wrap(application, slash_prefix="/api/")(scope | {"headers": headers}, receive, send)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event):
        pass

    for method in ("GET", "POST", "PUT", "DELETE"):
        for path in ("/api/shops/", "/api/shops", "/api/", "/api/shops//", "/admin/login/"):
            asyncio.run(call(method, path))

    told = ["/api/shops", "/api/shops", "/api/", "/api/shops/", "/admin/login/"]
    assert seen == [(method, path, path.encode()) for method in ("GET", "POST", "PUT", "DELETE") for path in told]


def test_hostile_bytes_in_a_path_cannot_forge_a_log_line(served: Served):
    assert served.get("/a%0d%0a{%22event%22:%22forged%22}%1b[31m").status_code == 400
    made = served.get("/caf%C3%A9%E2%80%A8forged").headers["x-request-id"]
    served.wait_for_line("request", request_id=made)
    assert all(line["event"] != "forged" for line in served.lines())


def test_x4_every_response_has_security_headers(served: Served):
    for answer in (served.get("/echo"), served.get("/fail"), served.get("/echo", headers={"X_Y": "1"})):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert (
            answer.headers["content-security-policy"] == "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
        )
        assert "server" not in answer.headers
    page = served.get("/page")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


def test_trace_is_405_on_every_path(served: Served):
    for path in ("/echo", "/livez", "/nowhere"):
        answer = httpx2.request("TRACE", served.url + path, headers={"Cookie": "secret=1"})
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
        assert "secret" not in answer.text


def test_an_unhandled_exception_is_a_json_500_with_its_traceback_only_in_the_log(served: Served):
    answer = served.get("/fail")
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal_error"
    assert "it broke" not in answer.text
    line = served.wait_for_line("request_failed", request_id=answer.json()["request_id"])
    assert "it broke" in line["exception"]


def test_an_exception_during_a_response_cuts_the_connection(served: Served):
    with pytest.raises(httpx2.RemoteProtocolError):
        served.get("/fail_late")
    assert served.get("/echo").status_code == 200


def test_u4_a_declared_body_over_the_limit_is_refused_before_it_is_read(served: Served):
    head = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (300 * MIB)
    status, problem = problem_of(raw(served, head))
    assert (status, problem["code"]) == (413, "payload_too_large")
    assert problem["request_id"]


def test_u4_a_chunked_body_is_refused_once_it_exceeds_the_limit_and_not_stored(start_server: StartServer):
    served = start_server()
    process = psutil.Process(served.process.pid)
    before = process.memory_info().rss
    with httpx2.Client(timeout=60) as client:
        try:
            answer = client.post(f"{served.url}/nowhere", content=chunked(300 * MIB))
        except httpx2.WriteError:  # expected: the server closed while the client was sending
            answer = None
    if answer is not None:
        assert answer.status_code == 413
        assert answer.json()["code"] == "payload_too_large"
        assert answer.headers["connection"] == "close"
    served.wait_for_line("request", status=413)
    assert process.memory_info().rss - before < 16 * MIB


def test_a_body_of_exactly_the_limit_is_accepted(served: Served):
    for content in (b"x" * MIB, chunked(MIB)):
        answer = httpx2.post(f"{served.url}/echo", content=content, timeout=60)
        assert len(answer.json()["body"]) == MIB


@pytest.mark.parametrize("body", [b"", b"{}", b'{"a": 1}', b"x" * 700_000])
def test_i3_a_chunked_body_is_passed_on_with_its_length(served: Served, body: bytes):
    def pieces():
        yield from (body[start : start + 1000] for start in range(0, len(body), 1000))

    declared = httpx2.post(f"{served.url}/echo", content=body, timeout=60).json()
    undeclared = httpx2.post(f"{served.url}/echo", content=pieces(), timeout=60).json()
    assert undeclared["body"] == declared["body"] == body.decode()
    assert dict(undeclared["headers"])["content-length"] == str(len(body))
    assert "transfer-encoding" not in dict(undeclared["headers"])


@pytest.mark.parametrize("body", [b"{}", b'{"a": 1}', b"x" * MIB, os.urandom(MIB // 4).hex().encode()], ids=range(4))
@pytest.mark.parametrize("is_chunked", [False, True])
def test_i3_a_gzip_body_is_passed_on_decoded_with_its_length(served: Served, body: bytes, is_chunked: bool):
    encoded = gzip.compress(body)
    content = (encoded[start : start + 777] for start in range(0, len(encoded), 777)) if is_chunked else encoded
    answer = httpx2.post(f"{served.url}/echo", content=content, headers={"Content-Encoding": "gzip"}, timeout=60)
    received = answer.json()
    assert received["body"] == body.decode()
    assert dict(received["headers"])["content-length"] == str(len(body))
    assert not {"content-encoding", "transfer-encoding"} & dict(received["headers"]).keys()


def test_u4_a_gzip_body_is_refused_once_its_content_exceeds_the_limit(start_server: StartServer):
    served = start_server()
    process = psutil.Process(served.process.pid)
    before = process.memory_info().rss
    bomb = gzip.compress(bytes(300 * MIB))
    assert len(bomb) < MIB
    answer = httpx2.post(f"{served.url}/echo", content=bomb, headers={"Content-Encoding": "gzip"}, timeout=60)
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert process.memory_info().rss - before < 16 * MIB


@pytest.mark.parametrize(
    ("encoding", "content", "status"),
    [
        ("gzip", b"{}", 400),
        ("gzip", gzip.compress(b"x" * 100)[:-9], 400),
        ("gzip", gzip.compress(b"{}") + b"more", 400),
        ("gzip", gzip.compress(b"{}")[:-4] + b"0000", 400),
        ("br", b"{}", 415),
        ("gzip, gzip", b"{}", 415),
        ("identity", b"{}", 200),
    ],
    ids=range(7),
)
def test_i3_a_body_of_another_encoding_is_refused(served: Served, encoding: str, content: bytes, status: int):
    answer = httpx2.post(f"{served.url}/echo", content=content, headers={"Content-Encoding": encoding}, timeout=60)
    assert answer.status_code == status


def test_a_client_that_stops_within_its_body_leaves_no_running_request(start_server: StartServer):
    served = start_server()
    for head in (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello", b"Content-Length: 100\r\n\r\nhello"):
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
            connection.sendall(b"POST /echo HTTP/1.1\r\nHost: localhost\r\n" + head)
            time.sleep(0.1)
    served.wait_for_line("request", status=0, method="POST")
    assert served.get("/echo").status_code == 200


@pytest.mark.parametrize("head", [b"Content-Length: 100\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello"])
def test_a_body_that_takes_too_long_is_refused(start_server: StartServer, head: bytes):
    served = start_server(body_timeout_s=0.3)
    status, problem = problem_of(raw(served, b"POST /echo HTTP/1.1\r\nHost: localhost\r\n" + head))
    assert (status, problem["code"]) == (408, "request_timeout")


def test_i9_proxy_headers_of_untrusted_clients_are_ignored(served: Served):
    hostile = {
        "X-Forwarded-For": "10.9.9.9",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "evil.example",
        "X-Real-IP": "10.9.9.9",
        "Forwarded": "for=10.9.9.9;proto=https",
        "Daphne-Root-Path": "/echo",
        "X-Original-URL": "/livez",
        "X-Rewrite-URL": "/livez",
    }
    told = served.get("/echo", headers=hostile).json()
    assert told["client"][0] == "127.0.0.1"
    assert (told["scheme"], told["root_path"], told["path"]) == ("http", "", "/echo")
    seen = {name for name, _ in told["headers"]}
    assert seen.isdisjoint({"x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-real-ip", "forwarded"})


def test_the_client_is_the_entry_of_the_outermost_trusted_proxy(start_server: StartServer):
    served = start_server(settings={"TRUSTED_PROXY_COUNT": 2})

    def client(chain: str) -> str:
        return str(served.get("/echo", headers={"X-Forwarded-For": chain}).json()["client"][0])

    assert client("6.6.6.6, 203.0.113.7, 10.0.0.1") == "203.0.113.7"
    assert client("2001:db8::1, 10.0.0.1") == "2001:db8::1"
    assert client("10.0.0.1") == "127.0.0.1"  # did not pass through both proxies
    assert client("nonsense, 10.0.0.1") == "127.0.0.1"
    assert served.get("/echo", headers={"X-Forwarded-Proto": "https"}).json()["scheme"] == "https"


@pytest.mark.parametrize(
    "lines",
    [
        [b"X_User: admin"],
        [b"Host: localhost", b"Host: evil.example"],
        [b"Authorization: Bearer a", b"Authorization: Bearer b"],
        [b"Content-Type: application/json", b"Content-Type: text/plain"],
        [b"X-A: a\x0bb"],
        [b"X-A: a\x85b"],
        [b"X-A: a\x00b"],
        [b"X-%d: 1" % number for number in range(500)],
        [b"X-A: 1"] * 10_000,
        [b"X-A: " + b"a" * 65536],
        [b"Content-Length: 5", b"Content-Length: 6"],
        [b"Content-Length: 5", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: chunked, identity"],
        [b"Transfer-Encoding: gzip, chunked"],
        [b"X-A: 1", b" folded"],
        [b"X-A : 1"],
        [b"Content-Length: -5"],
        [b"Content-Length: +5"],
        [b"Content-Length: 5, 5"],
        [b"Content-Length: 0x5"],
        [b"Content-Length: 5 5"],
        [b"Content-Length: " + b"5" * 30],
        [b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"],
        [b"Transfer-Encoding: xchunked"],
        [b"Transfer-Encoding: chunked", b"Content-Length: 5"],
        [b"Transfer_Encoding: chunked"],
        [b"Content_Length: 5"],
        [b"X A: 1"],
        [b": 1"],
    ],
    ids=lambda lines: lines[0][:30].decode("latin-1"),
)
def test_i5_and_i8_ambiguous_heads_are_refused(served: Served, lines: list[bytes]):
    head = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n" + b"\r\n".join(lines) + b"\r\n\r\n"
    status, problem = problem_of(raw(served, head + b"hello\r\n\r\nGET /second HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    assert (status, problem["code"]) == (400, "invalid_request")
    served.wait_for_line("request", request_id=problem["request_id"])
    assert not [line for line in served.lines() if line.get("path") == "/second"]


@pytest.mark.parametrize(
    "request_",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /echo HTTP/1.1\r\n\r\n",
        b"GET /a\x00b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /a%00b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /a?b=%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /" + b"a" * 65536 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
    ],
    ids=lambda request_: request_[:24].decode("latin-1"),
)
def test_o5_an_unparsable_request_is_answered_as_json(served: Served, request_: bytes):
    status, problem = problem_of(raw(served, request_))
    assert (status, problem["code"]) == (400, "invalid_request")
    served.wait_for_line("request", request_id=problem["request_id"], status=400)


def test_an_unsupported_upgrade_ends_the_connection_after_one_response(served: Served):
    said = raw(
        served,
        b"GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
        b"GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n",
    )
    assert said.startswith(b"HTTP/1.1 200")
    assert said.count(b"HTTP/1.1 ") == 1


def test_a_stream_is_not_buffered(served: Served):
    began = time.monotonic()
    with httpx2.stream("GET", f"{served.url}/stream", timeout=60) as answer:
        arrivals = [(time.monotonic() - began, piece) for piece in answer.iter_bytes()]
    assert b"".join(piece for _, piece in arrivals).endswith(b"data: [DONE]\n\n")
    assert arrivals[-1][0] - arrivals[0][0] > 0.5


def test_the_application_sees_the_client_disconnect(start_server: StartServer):
    served = start_server()
    for head in (b"Content-Length: 0\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
            connection.sendall(b"POST /endless HTTP/1.1\r\nHost: localhost\r\n" + head)
            time.sleep(0.2)
    deadline = time.monotonic() + 60
    while served.get("/livez").json()["left"] < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def flooded(served: Served, query: str = "") -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", served.port))
    connection.sendall(f"GET /flood{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return connection


def test_s3_a_client_that_does_not_read_costs_little_and_is_disconnected(start_server: StartServer):
    served = start_server(write_stall_s=2)
    process = psutil.Process(served.process.pid)
    served.get("/livez")
    before = process.memory_info().rss
    with ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(flooded(served))
        deadline = time.monotonic() + 60
        while served.get("/livez").json()["left"] < 50:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert process.memory_info().rss - before < 64 * 1024 * 1024


def test_s3_a_client_that_resumes_reading_in_time_misses_nothing(start_server: StartServer):
    served = start_server(write_stall_s=30)
    with flooded(served, "?8") as connection:
        time.sleep(1)
        got = 0
        while got < 8 * 1024 * 1024:
            piece = connection.recv(65536)
            assert piece
            got += len(piece)


def test_an_unparsable_request_is_answered_with_the_projects_headers(start_server: StartServer):
    served = start_server(settings={"API_HEADERS": {"API-Version": "1.0"}})
    head = raw(served, b"GARBAGE\r\n\r\n").partition(b"\r\n\r\n")[0].lower()
    assert head.count(b"api-version: 1.0") == 1
