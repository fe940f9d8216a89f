"""Limits on requests per minute. `count_request` is the rate-limit hook of the ASGI wrapper, called before Django.

WebSocket messages do not pass the wrapper: the consumer counts each inference with `count_scopes`. Failed WebSocket
sign-ins have an address counter of their own, so that they never use up the address's requests, nor the reverse.
"""

from collections.abc import Sequence

from django.conf import settings

from inference.usage.scopes import LimitScope, limit_scopes
from shared.accounts.middleware.request_limits import find_credential_owner, is_limited
from shared.api.limits.rate_limits import RateLimitCounter, RateLimitDecision, ahit, apeek, raise_if_limited
from shared.api.middleware.errors import HTML_PAGE_PATHS
from shared.serving.asgi.refusals import CLIENT_KEY, client_address_key
from shared.serving.asgi.types import Scope

BUCKET = "inference"
SIGN_INS_BUCKET = f"{BUCKET}-sign-ins"
PAGES_BUCKET = f"{BUCKET}-pages"


async def count_request(scope: Scope) -> RateLimitDecision | None:
    """Count a request against its credential's key and user, or else against its address.

    Browser pages, which send a session cookie, have a separate counter per address. The user or address is also the
    client whose turn the request takes: CLIENT_KEY in the scope. Return None for a request that is not limited.
    """
    if not is_limited(scope):
        return None
    scope[CLIENT_KEY] = client_address_key(scope)
    if any(scope["path"] == page or scope["path"].startswith(f"{page}/") for page in HTML_PAGE_PATHS):
        return await ahit(PAGES_BUCKET, RateLimitCounter(client_address_key(scope), settings.REQUEST_LIMIT))
    if owner := await find_credential_owner(scope):
        scope[CLIENT_KEY] = f"user:{owner.user_id}"
        return await count_scopes(limit_scopes(owner.user_id, owner.api_key))
    return await ahit(BUCKET, _address_counter(scope))


async def count_scopes(scopes: Sequence[LimitScope]) -> RateLimitDecision:
    """Count a request against all scopes, or against none if one of them has reached its limit."""
    return await ahit(BUCKET, *_scope_counters(scopes))


async def peek_scopes(scopes: Sequence[LimitScope]) -> list[RateLimitDecision]:
    """Return each scope's decision on a further request, without counting one."""
    return await apeek(BUCKET, *_scope_counters(scopes))


async def count_failed_sign_in(scope: Scope) -> None:
    """Count a failed WebSocket sign-in against its address."""
    await ahit(SIGN_INS_BUCKET, _address_counter(scope))


async def check_failed_sign_ins(scope: Scope) -> None:
    """Raise ApiError 429 if the address has had too many failed sign-ins. Count nothing."""
    [decision] = await apeek(SIGN_INS_BUCKET, _address_counter(scope))
    raise_if_limited(decision)


def _scope_counters(scopes: Sequence[LimitScope]) -> list[RateLimitCounter]:
    return [RateLimitCounter(scope.name, scope.requests_per_minute) for scope in scopes]


def _address_counter(scope: Scope) -> RateLimitCounter:
    return RateLimitCounter(client_address_key(scope), settings.ADDRESS_REQUEST_LIMIT)
