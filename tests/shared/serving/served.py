"""A small ASGI application behind the wrapper that tests run as a server: `SERVED='{...}' python -m ...`.

SERVED has `settings`, the arguments of `serve`, and `head_timeout_s`, `body_timeout_s`, `write_stall_s`,
`ping_interval_s`, `max_sockets` and `max_connections`.
"""

import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from django.conf import settings

from shared.observability.logging import configure_logging, logging_config
from shared.observability.request_fields import current_fields
from shared.serving.asgi import bodies
from shared.serving.server import http_protocol, websocket_protocol
from shared.serving.server.uvicorn_server import serve

left: list[str] = []
urlpatterns: list[Any] = []  # every path is `other` in the metrics


def error_body(problem: Any, *, path: str, request_id: str) -> dict[str, Any]:
    return {"code": problem.code, "message": problem.message, "path": path, "request_id": request_id}


async def answer(send: Any, body: bytes, content_type: bytes = b"application/json", status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", content_type)]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def read_all(receive: Any) -> bytes | None:
    body, more = b"", True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        body, more = body + event["body"], event["more_body"]
    return body


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body = await read_all(receive)
    if body is None:
        return
    told = {name: scope[name] for name in ("method", "path", "root_path", "scheme", "client")}
    headers = [(name.decode(), value.decode()) for name, value in scope["headers"]]
    await answer(send, json.dumps(told | {"headers": headers, "body": body.decode("latin-1")}).encode())


async def stream(scope: Any, receive: Any, send: Any) -> None:
    """Send an event every tenth of a second; the query is their number (default: 10)."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for number in range(int(scope["query_string"] or 10)):
        await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
        await asyncio.sleep(0.1)
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})


async def endless(scope: Any, receive: Any, send: Any) -> None:
    """Wait until the client leaves, without a response."""
    await read_all(receive)
    while (await receive())["type"] != "http.disconnect":
        pass
    left.append(scope["path"])


async def flood(scope: Any, receive: Any, send: Any) -> None:
    """Send as fast as possible; the query is the number of MiB (default: endless). Note when the client has left."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    writing = asyncio.create_task(_pour(send, int(scope["query_string"] or 0) * 16))
    leaving = asyncio.create_task(_until_left(receive))
    await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
    for task in (writing, leaving):
        task.cancel()
    left.append(scope["path"])


async def _pour(send: Any, pieces: int) -> None:
    sent = 0
    while not pieces or sent < pieces:
        await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        sent += 1
        await asyncio.sleep(0)  # sending to a client that has left never waits
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_left(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def stuck(scope: Any, receive: Any, send: Any) -> None:
    """Block a thread that nothing can end."""
    await asyncio.to_thread(time.sleep, 600)


async def fail(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError("it broke")


async def fail_late(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise RuntimeError("it broke late")


async def page(scope: Any, receive: Any, send: Any) -> None:
    await answer(send, b"<p>", b"text/html; charset=utf-8")


async def signed_in(scope: Any, receive: Any, send: Any) -> None:
    """Answer as a request whose credential is valid."""
    current_fields()["user_id"] = 1
    await answer(send, b"{}")


async def signed_in_stream(scope: Any, receive: Any, send: Any) -> None:
    """Start a stream as a request whose credential is valid, and hold it until the client leaves."""
    current_fields()["user_id"] = 1
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
    await _until_left(receive)


async def livez(scope: Any, receive: Any, send: Any) -> None:
    await answer(send, json.dumps({"left": len(left)}).encode())


async def socket(scope: Any, receive: Any, send: Any) -> None:
    """Echo messages; `flood` sends megabytes, `slow` pauses reading for a second, `break` raises an error."""
    await receive()
    await send({"type": "websocket.accept"})
    try:
        while (event := await receive())["type"] == "websocket.receive":
            text = event.get("text")
            while text == "flood":
                await send({"type": "websocket.send", "text": "x" * 65536})
            if text == "slow":
                await asyncio.sleep(1)
            if text == "break":
                raise RuntimeError("it broke")
            await send({"type": "websocket.send", **{key: event[key] for key in ("text", "bytes") if key in event}})
    finally:
        left.append(scope["path"])


ROUTES = {
    f"/{view.__name__}": view
    for view in (echo, stream, endless, flood, stuck, fail, fail_late, page, signed_in, signed_in_stream, livez)
}


async def project(scope: Any, receive: Any, send: Any) -> None:
    await ROUTES.get(scope["path"], echo)(scope, receive, send)


def configure(given: dict[str, Any]) -> None:
    """Configure Django as a project's settings do, with shorter timeouts where tests wait for them."""
    if settings.configured:
        return
    settings.configure(
        **{
            "SETTINGS_MODULE": "tests.settings",
            "API_ERROR_BODY": "tests.shared.serving.served.error_body",
            "MAX_BODY_BYTES": 1024 * 1024,
            "TRUSTED_PROXY_COUNT": 0,
            "ALLOWED_HOSTS": ["127.0.0.1", "localhost"],
            "CORS_ALLOWED_ORIGINS": ["https://shop.example"],
            "ROOT_URLCONF": "tests.shared.serving.served",
            "PROJECT": "served",
            "VERSION": "0",
            "TRACING": False,
            "SERVER_PERIODIC_TASKS": {},
            "VAR_DIR": tempfile.gettempdir(),
            "METRICS_DIR": Path(os.environ.get("STOA_METRICS_DIR", tempfile.gettempdir())) / "stoa-served",
        }
        | given.get("settings", {})
    )
    http_protocol.HEAD_TIMEOUT_SECONDS = given.get("head_timeout_s", http_protocol.HEAD_TIMEOUT_SECONDS)
    http_protocol.MAX_CONNECTIONS = given.get("max_connections", http_protocol.MAX_CONNECTIONS)
    http_protocol.MAX_CONNECTIONS_PER_ADDRESS = given.get(
        "max_connections_per_address", http_protocol.MAX_CONNECTIONS_PER_ADDRESS
    )
    http_protocol.MAX_CONNECTIONS_PER_USER = given.get(
        "max_connections_per_user", http_protocol.MAX_CONNECTIONS_PER_USER
    )
    http_protocol.WRITE_STALL_SECONDS = given.get("write_stall_s", http_protocol.WRITE_STALL_SECONDS)
    bodies.READ_TIMEOUT_SECONDS = given.get("body_timeout_s", bodies.READ_TIMEOUT_SECONDS)
    websocket_protocol.WRITE_STALL_SECONDS = given.get("write_stall_s", websocket_protocol.WRITE_STALL_SECONDS)
    websocket_protocol.PING_INTERVAL_SECONDS = given.get("ping_interval_s", websocket_protocol.PING_INTERVAL_SECONDS)
    configure_logging(logging_config(level="DEBUG", form="json"))


if __name__ == "__main__":
    given = json.loads(os.environ["SERVED"])
    configure(given)
    arguments = given.get("serve", {})
    if "uds" in arguments:
        arguments["uds"] = Path(arguments["uds"])
    serve("tests.shared.serving.wrapped:application", **{"port": 0} | arguments)
