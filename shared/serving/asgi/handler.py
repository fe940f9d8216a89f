"""Django's ASGI handler, which sends no response while the request holds a database connection or a thread."""

from typing import Any

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.db import close_old_connections
from django.http.response import HttpResponseBase

from shared.serving.asgi.threads import is_request_thread_unused, release_request_thread


class ConnectionReleasingHandler(ASGIHandler):
    """Handler for clients that read slowly: what they wait for is in memory, a file or read page by page."""

    async def send_response(self, response: HttpResponseBase, send: Any) -> None:
        """Close the thread's database connection, return the thread, then send the response."""
        if not is_request_thread_unused():
            await sync_to_async(close_old_connections)()
            release_request_thread()
        await super().send_response(response, send)


def get_asgi_application() -> ConnectionReleasingHandler:
    """Return the Django application of the settings."""
    django.setup(set_prefix=False)
    return ConnectionReleasingHandler()
