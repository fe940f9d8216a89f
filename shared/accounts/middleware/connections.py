"""Authentication of WebSockets: `authenticate_in_thread` for one message, `ConnectionRegistry` for the open sockets.

A request asks for its credential once. A socket may outlive it, so all that are open in this process are looked after
together: a few queries twice a second, however many there are.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import structlog
from django.db import Error as DatabaseError
from django.db import connection
from django.utils import timezone

from shared.accounts.authentication import Principal, authenticate
from shared.accounts.models import ApiKey, SignIn
from shared.api.errors import ApiError
from shared.api.limits.rate_limits import address_key
from shared.observability.health import is_draining

CHECK_INTERVAL_SECONDS = 0.5
MAX_IDS_PER_QUERY = 500
MAX_UNAUTHENTICATED_PER_ADDRESS = 100

T = TypeVar("T")
logger = structlog.get_logger(__name__)


async def authenticate_in_thread(credential: str) -> Principal:
    """`authenticate`, outside of any request: in a thread that keeps no connection to the database afterwards."""
    return await asyncio.to_thread(_with_own_connection, lambda: authenticate(credential))


@dataclass(eq=False)
class AuthenticatedConnection:
    """Somebody at an open socket, and what to call on the event loop."""

    principal: Principal
    on_revoked: Callable[[], None]  # the credential is no longer good; called once
    on_drain: Callable[[], None]  # this process is about to stop; called again and again until they leave


class ConnectionRegistry:
    """Who is at the sockets of this process, for one event loop; and how many of each address have not said yet.

    max_per_user: connections that one user may have open here.
    """

    def __init__(self, *, max_per_user: int) -> None:
        self._most_of_a_user = max_per_user
        self._present: set[AuthenticatedConnection] = set()
        self._at_the_door: Counter[str] = Counter()
        self._watching: asyncio.Task[None] | None = None

    @contextmanager
    def limit_unauthenticated(self, address: str) -> Iterator[None]:
        """While somebody has not said who they are. Raises ApiError 503: too many of this address have not."""
        place = address_key(address)
        if self._at_the_door[place] >= MAX_UNAUTHENTICATED_PER_ADDRESS:
            raise ApiError(503, "Too many connections of your address have not signed in. Try again in a moment.")
        self._at_the_door[place] += 1
        try:
            yield
        finally:
            self._at_the_door[place] -= 1
            if not self._at_the_door[place]:
                del self._at_the_door[place]

    def register(self, attendant: AuthenticatedConnection) -> None:
        """Raises ApiError 503 when this user has as many open here as they may."""
        user_id = attendant.principal.user.pk
        theirs = sum(1 for present in self._present if present.principal.user.pk == user_id)
        if theirs >= self._most_of_a_user:
            raise ApiError(503, f"You have {theirs} connections open here: close one of them first.")
        self._present.add(attendant)
        if self._watching is None or self._watching.done():
            # In a context of its own: it speaks for nobody's request.
            self._watching = asyncio.create_task(self._watch(), context=Context())

    def unregister(self, attendant: AuthenticatedConnection) -> None:
        self._present.discard(attendant)

    async def _watch(self) -> None:
        """Ends with the last who leaves."""
        while self._present:
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)
            try:
                await self._look()
            except DatabaseError as error:  # as a request would be: not now
                logger.warning("sockets_not_looked_after", reason=type(error).__name__)
            except Exception:  # of this look; if it were the last, who lost their right would keep their sockets
                logger.exception("sockets_not_looked_after")

    async def _look(self) -> None:
        if is_draining():
            for attendant in list(self._present):
                attendant.on_drain()
        for attendant in await _find_revoked(list(self._present)) & self._present:
            self.unregister(attendant)
            attendant.on_revoked()


async def _find_revoked(present: list[AuthenticatedConnection]) -> set[AuthenticatedConnection]:
    """Those whose credential would be refused if they sent it now."""
    good = await asyncio.to_thread(_with_own_connection, lambda: _find_valid(present, timezone.now()))
    return set(present) - good


def _find_valid(present: list[AuthenticatedConnection], now: datetime) -> set[AuthenticatedConnection]:
    in_time = [one for one in present if one.principal.expires_at is None or one.principal.expires_at > now]
    key_ids = {one.principal.api_key.pk for one in in_time if one.principal.api_key}
    sign_in_ids = {one.principal.sign_in.pk for one in in_time if one.principal.sign_in}
    keys: set[int] = set()
    for some_keys in _chunked(key_ids):
        good_keys = ApiKey.objects.filter(pk__in=some_keys, revoked_at=None, user__is_active=True)
        keys.update(good_keys.values_list("pk", flat=True))
    versions: dict[object, int] = {}
    current = SignIn.objects.filter(revoked_at=None, expires_at__gt=now, user__is_active=True)
    for some_sign_ins in _chunked(sign_in_ids):
        good_sign_ins = current.filter(pk__in=some_sign_ins)
        versions.update(good_sign_ins.values_list("pk", "user__token_version"))
    return {one for one in in_time if _is_valid(one.principal, keys, versions)}


def _is_valid(principal: Principal, keys: set[int], versions: dict[object, int]) -> bool:
    if principal.api_key:
        return principal.api_key.pk in keys
    return principal.sign_in is not None and versions.get(principal.sign_in.pk) == principal.user.token_version


def _chunked(ids: Iterable[T]) -> Iterator[list[T]]:
    rest = list(ids)
    for start in range(0, len(rest), MAX_IDS_PER_QUERY):
        yield rest[start : start + MAX_IDS_PER_QUERY]


def _with_own_connection(ask: Callable[[], T]) -> T:
    try:
        return ask()
    finally:
        connection.close()  # this thread's own
