"""Bodies that may be larger than others: asked before any of them is read, and only from somebody who is known."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from django.conf import settings
from django.db import connection

from shared.accounts.authentication import NotAuthenticated, authenticate, credential_from_headers
from shared.serving.asgi.request_checks import get_header
from shared.serving.asgi.types import Scope

Route = tuple[str, str]


def authenticated_body_limits(routes: Mapping[Route, str]) -> Callable[[Scope], Awaitable[int]]:
    """Return a `body_cap` for `shared.serving.asgi.wrapper.wrap`. `routes`: method and path to the name of the setting
    that says how many bytes a body may have there.

    It raises NotAuthenticated for a body that says it is large, and has no good credential; of one that does not say,
    so much is read as of anything else."""

    async def body_cap(scope: Scope) -> int:
        ordinary: int = settings.MAX_BODY_BYTES
        setting = routes.get((scope["method"], scope["path"]))
        if setting is None:
            return ordinary
        largest: int = max(ordinary, getattr(settings, setting))
        declared = int(get_header(scope["headers"], b"content-length") or 0)
        if declared > largest or 0 < declared <= ordinary:
            return largest  # refused for certain, or no larger than others: who sent it does not matter yet
        try:
            await asyncio.to_thread(_require_credential, scope)
        except NotAuthenticated:
            if declared:
                raise
            return ordinary
        return largest

    return body_cap


def _require_credential(scope: Scope) -> None:
    names = ("authorization", "x-api-key")
    credential = credential_from_headers({name: get_header(scope["headers"], name.encode()).decode() for name in names})
    try:
        if credential is None:
            raise NotAuthenticated
        authenticate(credential)
    finally:
        connection.close()  # this thread's own
