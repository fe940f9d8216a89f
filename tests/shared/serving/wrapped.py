"""The `asgi.py` of a test project: it configures the settings and wraps the application."""

import json
import os

from shared.serving.asgi.websockets import reject_unknown_path
from shared.serving.asgi.wrapper import wrap
from tests.shared.serving.served import configure, project, socket

given = json.loads(os.environ["SERVED"])
configure(given)


async def router(scope, receive, send):
    if scope["type"] == "websocket":
        await (socket if scope["path"] == "/socket" else reject_unknown_path)(scope, receive, send)
    else:
        await project(scope, receive, send)


application = wrap(router, max_websockets=given.get("max_sockets", 50))
