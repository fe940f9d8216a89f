"""The base of Django middleware that runs in both modes, without a thread of its own in the event loop."""

from collections.abc import Awaitable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class Middleware:
    """Middleware whose subclasses answer by `respond` in a thread, and by `arespond` in the event loop.

    Each calls `get_response`, which is a coroutine function in the event loop.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        return self.arespond(request) if self.is_async else self.respond(request)

    def respond(self, request: HttpRequest) -> HttpResponseBase:
        raise NotImplementedError

    async def arespond(self, request: HttpRequest) -> HttpResponseBase:
        raise NotImplementedError
