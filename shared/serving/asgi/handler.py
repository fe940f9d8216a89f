"""Django's ASGI handler, which sends no response while the request holds a pooled connection or a thread."""

import asyncio
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.db import close_old_connections
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from shared.serving.asgi.routes import find_route
from shared.serving.asgi.threads import close_request_thread, ending_when_client_leaves, metered, release_request_thread
from shared.serving.asgi.types import Scope

READING_METHODS = frozenset({"GET", "HEAD"})  # a POST may wait for another with its idempotency key, without a thread


class ConnectionReleasingHandler(ASGIHandler):
    """Handler for clients that read slowly: what they wait for is in memory, a file or read page by page.

    A read by a blocking view runs with all its middleware in the request's thread, which it enters once. Django's own
    enters it once for the view, the signals and each middleware: that was half of the cost of a list.
    """

    def __init__(self) -> None:
        super().__init__()
        self._blocking = BaseHandler()
        self._blocking.load_middleware(is_async=False)

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        if _is_blocking(scope):
            await self._handle_in_thread(scope, receive, send)
        else:
            await super().handle(scope, receive, send)

    async def _handle_in_thread(self, scope: Scope, receive: Any, send: Any) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        try:
            with ending_when_client_leaves(receive):
                response = await sync_to_async(self._respond)(scope, body)
            release_request_thread()
            if response.streaming:
                await self._send_until_disconnected(response, receive, send)
            else:
                await super().send_response(response, send)
        except RequestAborted:  # while the request waited for its turn
            pass
        finally:
            body.close()

    def _respond(self, scope: Scope, body: Any) -> Any:
        """Return the response. Only a stream is still open."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, body)
        response: Any = refusal if request is None else self._blocking.get_response(request)
        response._handler_class = self.__class__
        if response.streaming:
            close_old_connections()
        else:
            response.close()  # which closes the connection
        return response

    async def _send_until_disconnected(self, response: HttpResponseBase, receive: Any, send: Any) -> None:
        sending = asyncio.create_task(super().send_response(response, send))
        leaving: asyncio.Task[Any] = asyncio.create_task(receive())
        try:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await sync_to_async(response.close)()
        if not sending.cancelled():
            sending.result()

    async def run_get_response(self, request: Any) -> Any:
        return await metered(super().run_get_response(request))  # Django calls it in a task of its own

    async def send_response(self, response: HttpResponseBase, send: Any) -> None:
        """Close the thread's database connection, return the thread, then send the response."""
        if not await close_request_thread():
            await sync_to_async(close_old_connections)()
        await super().send_response(response, send)


def _is_blocking(scope: Scope) -> bool:
    if scope["method"] not in READING_METHODS:
        return False
    route = find_route(scope["path"])
    return route is not None and not route.is_async


def get_asgi_application() -> ConnectionReleasingHandler:
    """Return the Django application of the settings."""
    django.setup(set_prefix=False)
    return ConnectionReleasingHandler()
