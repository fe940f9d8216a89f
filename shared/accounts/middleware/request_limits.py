"""Rate limit of requests per user or address, before Django: `wrap(application, rate_limit=limit_request)`.

The limit is `settings.REQUEST_LIMIT` a minute. Probes, static files and malformed requests do not count.
`find_credential_owner` and `is_limited` are for projects with limits of their own.
"""

import time
from dataclasses import dataclass

from django.conf import settings
from django.db import Error as DatabaseError
from django.utils import timezone
from rest_framework_simplejwt.exceptions import TokenError

from shared.accounts.authentication import (
    API_KEY_PREFIX,
    MAX_CREDENTIAL_LENGTH,
    credential_from_headers,
    find_api_key,
    hash_secret,
    refused_api_keys,
    refused_tokens,
)
from shared.accounts.models import ApiKey
from shared.accounts.tokens import AccessToken
from shared.api.limits.rate_limits import RateLimitCounter, RateLimitDecision, ahit
from shared.serving.asgi.refusals import CLIENT_KEY, client_address_key
from shared.serving.asgi.request_checks import get_header
from shared.serving.asgi.turns import client_turns
from shared.serving.asgi.types import Scope
from shared.serving.asgi.wrapper import PROBE_PATHS
from shared.serving.db_threads import closing_connection

CACHE_SECONDS = 60.0
MAX_CACHED_KEYS = 10_000


@dataclass(frozen=True)
class CredentialOwner:
    """User of a credential, with the API key unless the credential is a token."""

    user_id: int
    api_key: ApiKey | None = None


async def limit_request(scope: Scope) -> RateLimitDecision | None:
    """Count this request for the user of its credential, else for its address. Return None when it is not limited.

    Whom it counts for is also the client whose turn it takes: CLIENT_KEY in the scope.
    """
    if not is_limited(scope):
        return None
    owner = await find_credential_owner(scope)
    key = f"user:{owner.user_id}" if owner else client_address_key(scope)
    scope[CLIENT_KEY] = key
    return await ahit("requests", RateLimitCounter(key, settings.REQUEST_LIMIT))


def is_limited(scope: Scope) -> bool:
    """Return whether requests to this path count: all except probes and static files."""
    return scope["path"] not in PROBE_PATHS and not scope["path"].startswith(settings.STATIC_URL)


async def find_credential_owner(scope: Scope) -> CredentialOwner | None:
    """Return the owner of the credential, or None for one that is known as refused, which counts for its address.

    Whether the credential is still valid is checked later, by `authenticate`.
    """
    names = ("authorization", "x-api-key")
    credential = credential_from_headers({name: get_header(scope["headers"], name.encode()).decode() for name in names})
    if credential is None or len(credential) > MAX_CREDENTIAL_LENGTH or not credential.isascii():
        return None
    if credential.startswith(API_KEY_PREFIX):
        return await _api_key_owners.find_owner(credential, address=client_address_key(scope))
    try:
        owner = CredentialOwner(AccessToken(credential).user_id)
    except TokenError:
        return None
    return None if credential in refused_tokens else owner


class ApiKeyOwnerCache:
    """Cache of the owners of API keys, for a minute each."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[CredentialOwner, float]] = {}

    async def find_owner(self, raw: str, *, address: str) -> CredentialOwner | None:
        """Return the owner of a raw key, or None for a key that is refused and when the database fails.

        A key is looked up when it is the turn of the owner that is known, or else of the client's address.
        """
        if raw in refused_api_keys:
            return None
        digest = hash_secret(raw)
        owner, expires_at = self._owners.get(digest, (None, 0.0))
        if expires_at > time.monotonic():
            return owner
        client = f"user:{owner.user_id}" if owner else address
        owner = await client_turns.run(client, closing_connection(_load_owner), raw, address=address)
        if owner is not None:
            if len(self._owners) >= MAX_CACHED_KEYS:
                self._owners.clear()
            self._owners[digest] = (owner, time.monotonic() + CACHE_SECONDS)
        return owner


def _load_owner(raw: str) -> CredentialOwner | None:
    try:
        key = find_api_key(raw)
    except DatabaseError:
        return None
    is_valid = key and key.user.is_active and not (key.expires_at and key.expires_at <= timezone.now())
    return CredentialOwner(key.user_id, key) if key and is_valid else None


_api_key_owners = ApiKeyOwnerCache()
