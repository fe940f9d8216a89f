"""How many requests a minute one user, or one address, may make: asked in front of Django, before a body is read.

`wrap(application, limit=count_request)`; the limit is `settings.REQUEST_LIMIT`. The probes and static files are not
counted, and neither is what is refused without being understood. `owner_of` and `is_counted` are for projects that
count otherwise.
"""

import asyncio
import time
from dataclasses import dataclass

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
from shared.accounts.models import ApiKey
from shared.accounts.tokens import InvalidToken, TokenKind, decode
from shared.api.rate_limits import Counter, Decision, address_key, ahit
from shared.serving.asgi import PROBE_PATHS
from shared.serving.asgi_types import Scope
from shared.serving.requests import header

REMEMBERED_S = 60.0
MOST_REMEMBERED = 10_000


@dataclass(frozen=True)
class Owner:
    """Whose credential it is: a user's, by one of their keys or by a session."""

    user_id: int
    api_key: ApiKey | None = None


async def count_request(scope: Scope) -> Decision | None:
    """Counts this request for the user whom its credential names, or else for its address. None: it is not limited."""
    if not is_counted(scope):
        return None
    owner = await owner_of(scope)
    key = f"user:{owner.user_id}" if owner else address_of(scope)
    return await ahit("requests", Counter(key, settings.REQUEST_LIMIT))


def is_counted(scope: Scope) -> bool:
    """Not so are the probes and static files."""
    return scope["path"] not in PROBE_PATHS and not scope["path"].startswith(settings.STATIC_URL)


def address_of(scope: Scope) -> str:
    """Under which name its address is counted."""
    client = scope.get("client")
    return f"address:{address_key(client[0] if client else '')}"


async def owner_of(scope: Scope) -> Owner | None:
    """Whose credential it is, if it is one of ours. Whether it is still good is asked later, by who lets it in: a
    made-up one counts for its address, so that making up many gains nothing."""
    names = ("authorization", "x-api-key")
    credential = credential_from_headers({name: header(scope["headers"], name.encode()).decode() for name in names})
    if credential is None or len(credential) > LONGEST_CREDENTIAL or not credential.isascii():
        return None
    if credential.startswith(KEY_MARK):
        return await _keys.owner_of(credential)
    try:
        return Owner(decode(credential, TokenKind.ACCESS).user_id)
    except InvalidToken:
        return None


class KnownKeys:
    """Whose API keys these are, asked from the database once a minute for each."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[Owner, float]] = {}

    async def owner_of(self, raw: str) -> Owner | None:
        """None for what is no key, and where the database cannot be asked just now."""
        digest = hash_secret(raw)
        owner, until = self._owners.get(digest, (None, 0.0))
        if until > time.monotonic():
            return owner
        found = await asyncio.to_thread(_owner, raw)
        if found is not None:
            if len(self._owners) >= MOST_REMEMBERED:
                self._owners.clear()
            self._owners[digest] = (found, time.monotonic() + REMEMBERED_S)
        return found


def _owner(raw: str) -> Owner | None:
    try:
        key = find_api_key(raw)
    except DatabaseError:
        return None
    finally:
        connection.close()  # this thread's own
    return Owner(key.user_id, key) if key else None


_keys = KnownKeys()
