"""How many requests a minute one user, or one address, may make: asked in front of Django, before a body is read.

`wrap(application, limit=count_request)`; the limit is `settings.REQUEST_LIMIT`. The probes and static files are not
counted, and neither is what is refused without being understood.
"""

import asyncio
import time

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from shared.accounts.authentication import (
    KEY_MARK,
    LONGEST_CREDENTIAL,
    credential_from_headers,
    find_api_key,
    hash_secret,
)
from shared.accounts.tokens import InvalidToken, TokenKind, decode
from shared.api.rate_limits import Decision, address_key, ahit
from shared.serving.asgi import PROBE_PATHS
from shared.serving.asgi_types import Scope
from shared.serving.requests import header

REMEMBERED_S = 60.0
MOST_REMEMBERED = 10_000


async def count_request(scope: Scope) -> Decision | None:
    """Counts this request for the user whom its credential names, or else for its address. None: it is not limited."""
    if scope["path"] in PROBE_PATHS or scope["path"].startswith(settings.STATIC_URL):
        return None
    user_id = await _user_of(scope)
    client = scope.get("client")
    key = f"user:{user_id}" if user_id else f"address:{address_key(client[0] if client else '')}"
    return await ahit("requests", key, limit=settings.REQUEST_LIMIT)


async def _user_of(scope: Scope) -> int | None:
    """Whose credential it is, if it is one of ours. Whether it is still good is asked later, by who lets it in: a
    made-up one counts for its address, so that making up many gains nothing."""
    names = ("authorization", "x-api-key")
    credential = credential_from_headers({name: header(scope["headers"], name.encode()).decode() for name in names})
    if credential is None or len(credential) > LONGEST_CREDENTIAL or not credential.isascii():
        return None
    if credential.startswith(KEY_MARK):
        return await _keys.user_of(credential)
    try:
        return decode(credential, TokenKind.ACCESS).user_id
    except InvalidToken:
        return None


class KnownKeys:
    """Whose API keys these are, asked from the database once a minute for each."""

    def __init__(self) -> None:
        self._users: dict[str, tuple[int, float]] = {}

    async def user_of(self, raw: str) -> int | None:
        """None for what is no key, and where the database cannot be asked just now."""
        digest = hash_secret(raw)
        user_id, until = self._users.get(digest, (None, 0.0))
        if until > time.monotonic():
            return user_id
        found = await asyncio.to_thread(_owner_id, raw)
        if found is not None:
            if len(self._users) >= MOST_REMEMBERED:
                self._users.clear()
            self._users[digest] = (found, time.monotonic() + REMEMBERED_S)
        return found


def _owner_id(raw: str) -> int | None:
    try:
        key = find_api_key(raw)
    except DatabaseError:
        return None
    finally:
        connection.close()  # this thread's own
    return key.user_id if key else None


_keys = KnownKeys()
