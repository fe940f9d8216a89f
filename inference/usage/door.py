"""How many requests may come, counted in front of Django: `wrap(application, limit=count_request)`.

A socket's messages have no such front: sign-ins that fail on one count for their address, apart from its requests, so
that neither takes the other's room.
"""

from django.conf import settings

from inference.usage import limits
from shared.accounts.request_limits import address_of, is_counted, owner_of
from shared.api.middleware import PAGES
from shared.api.rate_limits import Counter, Decision, ahit, alook, require
from shared.serving.asgi_types import Scope

SIGN_INS = f"{limits.BUCKET}-sign-ins"


async def count_request(scope: Scope) -> Decision | None:
    """Counts this request for the key and the user that its credential names, or else for its address. None: it is not
    limited. The pages of people with a browser, who send a session's cookie, count by address apart from the API."""
    if not is_counted(scope):
        return None
    if any(scope["path"] == page or scope["path"].startswith(f"{page}/") for page in PAGES):
        return await ahit(f"{limits.BUCKET}-pages", Counter(address_of(scope), settings.REQUEST_LIMIT))
    if owner := await owner_of(scope):
        return await limits.count_request(limits.scopes_of(owner.user_id, owner.api_key))
    return await ahit(limits.BUCKET, _strangers(scope))


async def count_failed_sign_in(scope: Scope) -> None:
    """Counts one for the address that it came from."""
    await ahit(SIGN_INS, _strangers(scope))


async def check_sign_ins(scope: Scope) -> None:
    """Counts nothing. Raises ApiError 429 while too many of the address have failed."""
    [decision] = await alook(SIGN_INS, _strangers(scope))
    require(decision)


def _strangers(scope: Scope) -> Counter:
    return Counter(address_of(scope), settings.ADDRESS_REQUEST_LIMIT)
