"""How large a body may be, asked before any of it is read: an upload of files is larger than all else, and comes only
from somebody who is signed in."""

import asyncio

from django.conf import settings
from django.db import connection

from shared.accounts.authentication import NotAuthenticated, authenticate, credential_from_headers
from shared.serving.asgi_types import Scope
from shared.serving.requests import header

UPLOAD = ("POST", "/api/attachments")


async def body_cap(scope: Scope) -> int:
    """In bytes. Raises NotAuthenticated for an upload that says it is large, and has no good credential; of one that
    does not say, so much is read as of anything else."""
    ordinary: int = settings.MAX_BODY_BYTES
    largest: int = max(ordinary, settings.MAX_UPLOAD_BYTES)
    if (scope["method"], scope["path"]) != UPLOAD:
        return ordinary
    declared = int(header(scope["headers"], b"content-length") or 0)
    if declared > largest or 0 < declared <= ordinary:
        return largest  # refused for certain, or no larger than others: who sent it does not matter yet
    try:
        await asyncio.to_thread(_require_credential, scope)
    except NotAuthenticated:
        if declared:
            raise
        return ordinary
    return largest


def _require_credential(scope: Scope) -> None:
    names = ("authorization", "x-api-key")
    credential = credential_from_headers({name: header(scope["headers"], name.encode()).decode() for name in names})
    try:
        if credential is None:
            raise NotAuthenticated
        authenticate(credential)
    finally:
        connection.close()  # this thread's own
