"""The WebSocket server and its ASGI wrapper, as clients see them."""

import asyncio
import json
import socket
import struct
import time
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from shared.serving.asgi import websockets
from shared.serving.asgi.refusals import BURST, RefusalPacer
from shared.serving.asgi.types import Event, Receive, Scope, Send
from tests.shared.serving.conftest import Served, StartServer

MIB = 1024 * 1024
HANDSHAKE = (
    b"GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


def url(served: Served, path: str = "/socket") -> str:
    return f"ws://127.0.0.1:{served.port}{path}"


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, masked: bool = True, reserved: int = 0) -> bytes:
    """Return a client's frame with a mask of zeros."""
    first = (0x80 if fin else 0) | (reserved << 4) | opcode
    mark = 0x80 if masked else 0
    if len(payload) < 126:
        head = struct.pack("!BB", first, mark | len(payload))
    elif len(payload) < 65536:
        head = struct.pack("!BBH", first, mark | 126, len(payload))
    else:
        head = struct.pack("!BBQ", first, mark | 127, len(payload))
    return head + (b"\0\0\0\0" if masked else b"") + payload


def open_socket(served: Served, *, receive_buffer: int | None = None) -> socket.socket:
    """Return a connected socket after the handshake."""
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", served.port))
    connection.sendall(HANDSHAKE + b"\r\n")
    said = b""
    while not said.endswith(b"\r\n\r\n"):
        said += connection.recv(1)
    assert said.startswith(b"HTTP/1.1 101 "), said
    return connection


def close_code(connection: socket.socket) -> int | None:
    """Return the code of the server's close frame; None if the connection is cut without one."""
    said = b""
    try:
        while piece := connection.recv(65536):
            said += piece
    except ConnectionResetError:
        pass
    position = said.rfind(b"\x88")
    return int.from_bytes(said[position + 2 : position + 4], "big") if position >= 0 else None


def eventually_left(served: Served, count: int) -> None:
    deadline = time.monotonic() + 60
    while served.get("/livez").json()["left"] < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def closed_with(client: ClientConnection) -> int:
    async with asyncio.timeout(60):
        await client.wait_closed()
    assert client.close_code is not None
    return client.close_code


async def test_messages_are_uncompressed_and_the_connection_has_a_request_id(served: Served):
    async with connect(url(served), additional_headers={"X-Request-Id": "mine-1"}) as client:
        assert client.response is not None
        assert client.response.headers["x-request-id"] == "mine-1"
        assert "sec-websocket-extensions" not in client.response.headers
        await client.send("hello")
        assert await client.recv() == "hello"
        await client.send(b"\x00")
        assert await client.recv() == b"\x00"
    line = served.wait_for_line("socket", request_id="mine-1")
    assert (line["path"], line["status"], line["code"]) == ("/socket", 101, 1000)


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 101),
        ("http://127.0.0.1:{port}", 101),
        ("HTTP://127.0.0.1:{port}", 101),
        ("https://127.0.0.1:{port}", 101),  # the server may close first
        ("https://shop.example", 101),
        ("http://shop.example", 403),
        ("https://shop.example:444", 403),
        ("https://evil.example", 403),
        ("http://evil.example:{port}", 403),
        ("http://127.0.0.1", 403),
        ("http://127.0.0.1:1", 403),
        ("http://localhost:{port}", 403),
        ("http://127.0.0.1:{port}.evil.example", 403),
        ("http://evil.example/127.0.0.1:{port}", 403),
        ("http://evil@127.0.0.1:{port}", 403),
        ("file://", 403),
        ("null", 403),
        ("chrome-extension://abcdef", 403),
        ("127.0.0.1:{port}", 403),
        ("javascript://127.0.0.1:{port}", 403),
        ("http://[127.0.0.1:{port}", 403),
    ],
)
async def test_s7_a_page_of_a_foreign_origin_cannot_connect(served: Served, origin: str | None, status: int):
    headers = {"Origin": origin.format(port=served.port)} if origin else {}
    if status == 101:
        async with connect(url(served), additional_headers=headers) as client:
            await client.send("hello")
            assert await client.recv() == "hello"
        return
    with pytest.raises(InvalidStatus) as refused:
        await connect(url(served), additional_headers=headers)
    assert refused.value.response.status_code == status
    problem = json.loads(bytes(refused.value.response.body or b""))
    assert problem["code"] == "permission_denied"
    served.wait_for_line("socket", request_id=problem["request_id"], status=status)


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        (HANDSHAKE.replace(b"/socket", b"/nothing"), 404),
        (HANDSHAKE.replace(b"Host: localhost", b"Host: evil.example"), 400),
        (HANDSHAKE.replace(b"Version: 13", b"Version: 12"), 400),
        (HANDSHAKE.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"short"), 400),
        (HANDSHAKE.replace(b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b""), 400),
        (HANDSHAKE + b"Host: localhost\r\n", 400),
        (HANDSHAKE + b"X-Long: " + b"x" * 9000 + b"\r\n", 431),
        (HANDSHAKE.replace(b"GET", b"POST"), 405),
    ],
    ids=["path", "host", "version", "key", "no key", "two hosts", "long line", "method"],
)
def test_o5_i8_a_failed_handshake_is_answered_as_json(served: Served, changed: bytes, status: int):
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(changed + b"\r\n")
        said = b""
        while piece := connection.recv(65536):
            said += piece
    head, _, body = said.partition(b"\r\n\r\n")
    assert int(head.split(b" ")[1]) == status
    assert json.loads(body)["request_id"].encode() in head
    assert "Traceback" not in served.log.read_text()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(1, b"x" * (MIB + 1)), 1009),
        (struct.pack("!BBQ", 0x81, 0xFF, 2**62), 1009),
        (frame(1, b"x" * MIB, fin=False) + frame(0, b"x"), 1009),
        (frame(1, b"", fin=False) + frame(0, b"", fin=False) * 5000, 1009),
        (frame(1, b"\xff\xfe"), 1007),
        (frame(1, b"x", masked=False), 1002),
        (frame(1, b"x", reserved=4), 1002),  # compressed, without negotiation
        (frame(9, b"x" * 126), 1002),
        (frame(9, b"x", fin=False), 1002),
        (frame(0, b"x"), 1002),
        (frame(1, b"x", fin=False) + frame(1, b"y"), 1002),
        *[(frame(unknown, b"x"), 1002) for unknown in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)],
        *[(frame(1, b"x", reserved=bits), 1002) for bits in (1, 2, 3, 5, 6, 7)],  # same as `reserved=4` above
        *[(frame(8, struct.pack("!H", never)), 1002) for never in (0, 1004, 1006, 1015)],
        *[(frame(1, broken), 1007) for broken in (b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82")],
        (frame(8, b"\x00"), 1002),
        (frame(8, struct.pack("!H", 999)), 1002),
        (frame(8, struct.pack("!H", 1005)), 1002),
        (frame(8, struct.pack("!H", 1000) + b"\xff"), 1007),
        (frame(8, struct.pack("!H", 1000)), 1000),
        (frame(8), 1005),
    ],
)
def test_s13_a_malformed_frame_ends_its_connection_alone(served: Served, sent: bytes, code: int):
    other = open_socket(served)
    with open_socket(served) as connection:
        connection.sendall(sent)
        said = close_code(connection)
        assert said == (None if code == 1005 else code) or (code == 1005 and said is not None)
    other.sendall(frame(1, b"still here"))
    assert other.recv(100)[2:] == b"still here"
    other.close()
    assert "Traceback" not in served.log.read_text()


async def test_s13_an_application_that_breaks_closes_with_1011_and_one_traceback(start_server: StartServer):
    served = start_server()
    async with connect(url(served)) as client:
        await client.send("break")
        assert await closed_with(client) == 1011
    served.wait_for_line("socket", code=1011)
    assert served.log.read_text().count("RuntimeError: it broke") == 1


def test_s4_a_peer_that_does_not_read_costs_little_and_is_closed_with_1013(start_server: StartServer):
    served = start_server(write_stall_s=2)
    process = psutil.Process(served.process.pid)
    open_socket(served).close()
    before = process.memory_info().rss
    connection = open_socket(served, receive_buffer=4096)
    connection.sendall(frame(1, b"flood"))

    eventually_left(served, 2)  # one of them is the previous connection
    assert process.memory_info().rss - before < 16 * MIB
    deadline = time.monotonic() + 60
    while [held for held in process.net_connections("tcp") if held.status == "ESTABLISHED"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    connection.close()


def test_s4_a_peer_that_resumes_reading_in_time_misses_nothing(start_server: StartServer):
    served = start_server(write_stall_s=30)
    with open_socket(served, receive_buffer=4096) as connection:
        connection.sendall(frame(1, b"flood"))
        time.sleep(1)
        got = 0
        while got < 8 * MIB:
            piece = connection.recv(65536)
            assert piece
            got += len(piece)


def test_s5_a_peer_that_sends_too_fast_is_slowed_down(start_server: StartServer):
    served = start_server()
    process = psutil.Process(served.process.pid)
    with open_socket(served) as connection:
        before = process.memory_info().rss
        connection.sendall(frame(1, b"slow"))
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.sendall(frame(1, b"x" * 500_000) * 600)
        assert process.memory_info().rss - before < 32 * MIB


def test_s5_pings_are_not_read_while_their_pongs_are_not(start_server: StartServer):
    served = start_server(write_stall_s=2)
    process = psutil.Process(served.process.pid)
    connection = open_socket(served, receive_buffer=4096)
    before = process.memory_info().rss
    connection.settimeout(1)
    with pytest.raises((TimeoutError, ConnectionError)):
        connection.sendall(frame(9, b"x" * 125) * 1_000_000)
    assert process.memory_info().rss - before < 16 * MIB
    eventually_left(served, 1)
    connection.close()


async def test_s14_a_silent_peer_is_pinged_and_closed_if_it_does_not_answer(start_server: StartServer):
    served = start_server(ping_interval_s=0.2, write_stall_s=1)
    with open_socket(served) as silent:
        assert silent.recv(2) == b"\x89\x04"  # a ping with four bytes
        assert close_code(silent) == 1013
    async with connect(url(served)) as client:
        await asyncio.sleep(2)  # the client library answers pings itself
        await client.send("hello")
        assert await client.recv() == "hello"


async def test_s8_a_connection_over_the_limit_is_closed_with_1013_and_the_others_stay(start_server: StartServer):
    served = start_server(max_sockets=3)
    held = [await connect(url(served)) for _ in range(3)]
    async with connect(url(served)) as surplus:
        assert await closed_with(surplus) == 1013
    await held.pop().close()
    eventually_left(served, 1)
    held.append(await connect(url(served)))
    for client in held:
        await client.send("hello")
        assert await client.recv() == "hello"
        await client.close()


async def test_s12_a_stopping_server_closes_remaining_connections_with_1012(start_server: StartServer):
    served = start_server(serve={"drain_s": 1})
    client = await connect(url(served))
    served.process.terminate()
    served.wait_for_line("draining")
    with pytest.raises(InvalidStatus) as refused:
        await connect(url(served))
    assert refused.value.response.status_code == 503
    assert refused.value.response.headers["retry-after"] == "5"
    assert await closed_with(client) == 1012
    await asyncio.to_thread(served.process.wait, 60)
    assert served.process.returncode == 0


async def test_handshakes_of_an_address_in_debt_wait_but_only_so_many(monkeypatch: pytest.MonkeyPatch, settings: Any):
    monkeypatch.setattr(websockets, "MAX_HELD_PER_ADDRESS", 3)
    settings.TRUSTED_PROXY_COUNT, settings.ALLOWED_HOSTS = 0, ["localhost"]
    pacer = RefusalPacer()
    for _ in range(2 * BURST):
        pacer.count("address:192.0.2.1")
    monkeypatch.setattr(websockets, "pacer", pacer)
    served: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        served.append(scope["client"][0])

    guard = websockets.WebSocketGuard(application, 50)
    held = [asyncio.ensure_future(handshake(guard, "192.0.2.1")) for _ in range(3)]
    await asyncio.sleep(0)
    assert (await handshake(guard, "192.0.2.1"))[0]["status"] == 429
    assert await handshake(guard, "192.0.2.2") == []
    assert served == ["192.0.2.2"]
    held[0].cancel()
    await asyncio.gather(held[0], return_exceptions=True)
    held.append(asyncio.ensure_future(handshake(guard, "192.0.2.1")))
    await asyncio.sleep(0)
    assert not held[-1].done(), "it waits in the place of the one that has gone"
    for waiting in held:
        waiting.cancel()
    await asyncio.gather(*held, return_exceptions=True)


async def handshake(guard: websockets.WebSocketGuard, address: str) -> list[Event]:
    """Return what the guard sends."""
    sent: list[Event] = []

    async def receive() -> Event:
        return await asyncio.Future()

    async def send(event: Event) -> None:
        sent.append(event)

    scope = {
        "type": "websocket",
        "path": "/socket",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": (address, 5000),
        "extensions": {"websocket.http.response": {}},
    }
    await guard.handle(scope, receive, send)
    return sent
