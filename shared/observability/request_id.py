"""Ids of requests: read from and returned in `X-Request-Id`, and part of every log line and error body.

The ASGI wrapper binds the id before anything else can fail. The middleware does so without the wrapper, as in Django's
test client and `runserver`.
"""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from shared.middleware import Middleware

HEADER = "X-Request-Id"

_request_id: ContextVar[str] = ContextVar("request_id", default="")
_SANE = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


def current_request_id() -> str:
    """Return the id of the current request; "" outside of a request."""
    return _request_id.get()


def new_request_id() -> str:
    """Return `req_` and 24 random hexadecimal digits."""
    return f"req_{secrets.token_hex(12)}"


def is_valid_request_id(value: str) -> bool:
    """Return whether a client's id may be used: it is copied into logs and headers."""
    return _SANE.fullmatch(value) is not None


@contextmanager
def bind_request_id(offered: str) -> Iterator[str]:
    """Bind the client's id if it is valid, or else a new one, during the block. Yield the bound id."""
    request_id = offered if is_valid_request_id(offered) else new_request_id()
    token = _request_id.set(request_id)
    try:
        yield request_id
    finally:
        _request_id.reset(token)


class RequestIdMiddleware(Middleware):
    """Middleware that adds the id to every response, and binds one if the ASGI wrapper has not."""

    def respond(self, request: HttpRequest) -> HttpResponseBase:
        with bind_request_id(_offered(request)) as request_id:
            response: HttpResponseBase = self.get_response(request)
            response.headers[HEADER] = request_id
            return response

    async def arespond(self, request: HttpRequest) -> HttpResponseBase:
        with bind_request_id(_offered(request)) as request_id:
            response: HttpResponseBase = await self.get_response(request)
            response.headers[HEADER] = request_id
            return response


def _offered(request: HttpRequest) -> str:
    return current_request_id() or request.headers.get(HEADER, "")
