"""Limit scopes: the API keys and users whose limits a request counts against.

A request counts against its key and its user together. A key with limits of its own counts alone.
"""

from dataclasses import dataclass
from typing import Literal

from django.conf import settings

from shared.accounts.authentication import Principal
from shared.accounts.models import ApiKey


@dataclass(frozen=True)
class LimitScope:
    """A key or a user, with its limits. `name` identifies it in Redis."""

    name: str
    requests_per_minute: int
    tokens_per_minute: int
    max_concurrency: int

    @property
    def kind(self) -> Literal["key", "user"]:
        return "key" if self.name.startswith("key:") else "user"


def limit_scopes(user_id: int, api_key: ApiKey | None) -> tuple[LimitScope, ...]:
    """Return the scopes of a user's request. Without a key, as in a session, it counts against the user alone."""
    user = LimitScope(
        f"user:{user_id}", settings.USER_REQUEST_LIMIT, settings.USER_TOKEN_LIMIT, settings.USER_CONCURRENCY_LIMIT
    )
    if api_key is None:
        return (user,)
    key = LimitScope(
        f"key:{api_key.pk}",
        _limit_or_default(api_key.request_limit, settings.KEY_REQUEST_LIMIT),
        _limit_or_default(api_key.token_limit, settings.KEY_TOKEN_LIMIT),
        _limit_or_default(api_key.concurrency_limit, settings.KEY_CONCURRENCY_LIMIT),
    )
    return (key,) if api_key.has_own_limits else (key, user)


def principal_limit_scopes(principal: Principal) -> tuple[LimitScope, ...]:
    """Return the scopes of a request made with this credential."""
    return limit_scopes(principal.user.pk, principal.api_key)


def _limit_or_default(limit: int | None, default: int) -> int:
    return default if limit is None else limit
