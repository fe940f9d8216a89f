"""Whose limits count for a request, and how many requests a minute have come.

A request counts for its key and for its user together. A key that was given limits of its own counts by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from django.conf import settings

from shared.accounts.authentication import Principal
from shared.accounts.models import ApiKey
from shared.api.rate_limits import Counter, Decision, ahit, alook

BUCKET = "inference"


@dataclass(frozen=True)
class Scope:
    """What is counted together, with its limits: requests a minute, tokens a minute, requests at once."""

    name: str
    requests: int
    tokens: int
    concurrency: int

    @property
    def kind(self) -> Literal["key", "user"]:
        return "key" if self.name.startswith("key:") else "user"


def scopes_of(user_id: int, api_key: ApiKey | None) -> tuple[Scope, ...]:
    """For whom a request counts; a session counts for its user alone."""
    user = Scope(
        f"user:{user_id}", settings.USER_REQUEST_LIMIT, settings.USER_TOKEN_LIMIT, settings.USER_CONCURRENCY_LIMIT
    )
    if api_key is None:
        return (user,)
    key = Scope(
        f"key:{api_key.pk}",
        _own_or(api_key.request_limit, settings.KEY_REQUEST_LIMIT),
        _own_or(api_key.token_limit, settings.KEY_TOKEN_LIMIT),
        _own_or(api_key.concurrency_limit, settings.KEY_CONCURRENCY_LIMIT),
    )
    return (key,) if api_key.has_own_limits else (key, user)


def scopes_of_principal(caller: Principal) -> tuple[Scope, ...]:
    return scopes_of(caller.user.pk, caller.api_key)


async def count_request(scopes: Sequence[Scope]) -> Decision:
    """Counts one request for all of them, or for none when one of them is full."""
    return await ahit(BUCKET, *_counters(scopes))


async def requests_left(scopes: Sequence[Scope]) -> list[Decision]:
    """The same without counting, scope by scope."""
    return await alook(BUCKET, *_counters(scopes))


def _counters(scopes: Sequence[Scope]) -> list[Counter]:
    return [Counter(scope.name, scope.requests) for scope in scopes]


def _own_or(own: int | None, default: int) -> int:
    return default if own is None else own
