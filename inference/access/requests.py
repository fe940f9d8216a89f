"""Checks of a request before its operation runs: method, credential, permission, body."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from django.http import HttpRequest

from shared.accounts.authentication import Principal, aauthenticate, credential_from_headers
from shared.accounts.roles import Permission
from shared.api.errors import ApiError
from shared.api.parsers import MAX_CREDENTIALS_BYTES, parse_json, require_utf8
from shared.serving.asgi.threads import run_in_turn

BodyParser = Callable[[Mapping[str, Any]], Any]
BodyReader = Callable[[bytes], Any]

MAX_INLINE_PARSE_BYTES = 64 * 1024  # parsing this much JSON takes about 1 ms; larger bodies are parsed in a thread

# A body that a `body_reader` takes may have a hundred megabytes, and several times that in memory once it is parsed.
# Until a slot is free, it waits on disk.
MAX_HEAVY_REQUESTS = 2
_heavy_requests = asyncio.Semaphore(MAX_HEAVY_REQUESTS)
_locks_by_user: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()


@asynccontextmanager
async def heavy_request_slot(principal: Principal) -> AsyncIterator[None]:
    """Hold one of the slots for requests that take many seconds or much memory.

    A user holds at most one: a user who sends a hundred of them delays nobody else.
    """
    async with _locks_by_user.setdefault(principal.user.pk, asyncio.Lock()), _heavy_requests:
        yield


def check_method(request: HttpRequest, method: str) -> None:
    """Raise ApiError 405 unless the request has this method; HEAD counts as GET."""
    allowed = ["GET", "HEAD"] if method == "GET" else [method]
    if request.method not in allowed:
        raise method_not_allowed(allowed)


def method_not_allowed(allowed: Sequence[str]) -> ApiError:
    """Return the 405 error of a route with these methods."""
    allow = ", ".join(allowed)
    return ApiError(405, f"This address takes {allow} only.", headers={"Allow": allow})


async def authorize(request: HttpRequest, permission: Permission) -> Principal:
    """Return the authenticated principal. Raise ApiError 401, or 403 without the permission."""
    credential = credential_from_headers(request.headers)
    if credential is None:
        raise ApiError(
            401,
            "Send an API key or an access token in the Authorization header: `Authorization: Bearer ...`.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    principal = await aauthenticate(credential)
    require_permission(principal, permission)
    return principal


def require_permission(principal: Principal, permission: Permission) -> None:
    """Raise ApiError 403 unless the principal has the permission."""
    if not principal.has_permission(permission):
        raise ApiError(403, f"This needs the permission {permission}, which your user or key does not have.")


def read_body(request: HttpRequest) -> bytes:
    """Return the whole body.

    The ASGI wrapper has limited its size for this route. `request.body` would apply Django's limit for forms to it.
    """
    if not hasattr(request, "_body"):
        request._body = request.read()
    return request.body


def check_content_type(request: HttpRequest) -> None:
    """Raise ApiError 415 unless the body is declared as JSON in UTF-8."""
    if request.content_type not in ("application/json", ""):
        raise ApiError(415, "Send the body as JSON, with `Content-Type: application/json`.")
    require_utf8(request.content_params or {})


def check_public_body(raw: bytes) -> None:
    """Raise ApiError 413 for a body that is larger than credentials need, on routes that anybody may call."""
    if len(raw) > MAX_CREDENTIALS_BYTES:
        raise ApiError(413, f"The request body is larger than {MAX_CREDENTIALS_BYTES} bytes.")


async def parse_json_body(raw: bytes, parser: BodyParser) -> Any:
    """Return what `parser` makes of the JSON, in a thread where parsing takes long."""
    if len(raw) > MAX_INLINE_PARSE_BYTES:
        return await run_in_turn(lambda: parser(parse_json(raw)))
    return parser(parse_json(raw))
