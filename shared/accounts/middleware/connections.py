"""Authentication of WebSockets: `authenticate_in_thread` for one message, `ConnectionRegistry` for the open sockets.

A request is authenticated once. A WebSocket may outlive its credential, so that the registry checks all open ones of
this process together: a few queries twice a second, however many there are.
"""

import asyncio
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import structlog
from django.db import Error as DatabaseError
from django.http import StreamingHttpResponse
from django.utils import timezone

from shared.accounts.authentication import Principal, authenticate
from shared.accounts.models import ApiKey, SignIn
from shared.api.errors import ApiError
from shared.api.limits.rate_limits import address_key
from shared.observability.health import is_draining
from shared.serving.asgi.turns import client_turns
from shared.serving.db_threads import closing_connection, run_in_db_thread

CHECK_INTERVAL_SECONDS = 0.5
MAX_IDS_PER_QUERY = 500
MAX_UNAUTHENTICATED_PER_ADDRESS = 100

T = TypeVar("T")
logger = structlog.get_logger(__name__)


async def authenticate_in_thread(credential: str, *, client: str, address: str) -> Principal:
    """Run `authenticate` outside of any request, in a thread that closes its database connection.

    client: the user or address whose turn it takes. address: where the credential comes from.
    """
    return await client_turns.run(client, closing_connection(authenticate), credential, address=address)


@dataclass(eq=False)
class AuthenticatedConnection:
    """Open WebSocket of a principal, with its callbacks on the event loop."""

    principal: Principal
    on_revoked: Callable[[], None]  # the credential is no longer valid; called once
    on_drain: Callable[[], None]  # this process is about to stop; called repeatedly until it is unregistered


class ConnectionRegistry:
    """Registry of the open WebSockets of one event loop, and counter of unauthenticated ones per address.

    Args:
        max_per_user: connections that one user may have open in this process.
    """

    def __init__(self, *, max_per_user: int) -> None:
        self._max_per_user = max_per_user
        self._connections: set[AuthenticatedConnection] = set()
        self._unauthenticated: Counter[str] = Counter()
        self._check_task: asyncio.Task[None] | None = None

    @contextmanager
    def limit_unauthenticated(self, address: str) -> Iterator[None]:
        """Count a connection as unauthenticated inside the block. Raise ApiError 503 when its address has too many."""
        key = address_key(address)
        if self._unauthenticated[key] >= MAX_UNAUTHENTICATED_PER_ADDRESS:
            raise ApiError(503, "Too many connections from your address are not authenticated. Try again in a moment.")
        self._unauthenticated[key] += 1
        try:
            yield
        finally:
            self._unauthenticated[key] -= 1
            if not self._unauthenticated[key]:
                del self._unauthenticated[key]

    def register(self, websocket: AuthenticatedConnection) -> None:
        """Add a connection. Raise ApiError 503 when its user has `max_per_user` open."""
        user_id = websocket.principal.user.pk
        open_count = sum(1 for other in self._connections if other.principal.user.pk == user_id)
        if open_count >= self._max_per_user:
            raise ApiError(503, f"You have {open_count} open connections, the maximum. Close one first.")
        self._connections.add(websocket)
        if self._check_task is None or self._check_task.done():
            # In an empty context: the task belongs to no request.
            self._check_task = asyncio.create_task(self._check_periodically(), context=Context())

    def unregister(self, websocket: AuthenticatedConnection) -> None:
        self._connections.discard(websocket)

    async def _check_periodically(self) -> None:
        """Check until the last connection is unregistered."""
        while self._connections:
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)
            try:
                await self._check()
            except DatabaseError as error:
                logger.warning("connection_check_failed", reason=type(error).__name__)
            except Exception:  # the next check must run, or revoked connections would stay open
                logger.exception("connection_check_failed")

    async def _check(self) -> None:
        if is_draining():
            for websocket in list(self._connections):
                websocket.on_drain()
        for websocket in await _find_revoked(list(self._connections)) & self._connections:
            self.unregister(websocket)
            websocket.on_revoked()


class AuthenticatedStream(StreamingHttpResponse):
    """A response that is open in a registry until Django closes it, or nothing refers to it. Made on the event loop."""

    def __init__(
        self, content: Any, *, registry: ConnectionRegistry, client: AuthenticatedConnection, **options: Any
    ) -> None:
        registry.register(client)
        self._disconnect = weakref.finalize(self, _unregister, asyncio.get_running_loop(), registry, client)
        self._disconnect.atexit = False
        super().__init__(content, **options)

    def close(self) -> None:
        """Disconnect the client. Django calls this outside the event loop."""
        self._disconnect()
        super().close()


def _unregister(loop: asyncio.AbstractEventLoop, registry: ConnectionRegistry, client: AuthenticatedConnection) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(registry.unregister, client)


async def _find_revoked(connections: list[AuthenticatedConnection]) -> set[AuthenticatedConnection]:
    """Return the connections whose credential would be refused now."""
    valid = await run_in_db_thread(_find_valid, connections, timezone.now())
    return set(connections) - valid


def _find_valid(connections: list[AuthenticatedConnection], now: datetime) -> set[AuthenticatedConnection]:
    unexpired = [one for one in connections if one.principal.expires_at is None or one.principal.expires_at > now]
    key_ids = {one.principal.api_key.pk for one in unexpired if one.principal.api_key}
    sign_in_ids = {one.principal.sign_in.pk for one in unexpired if one.principal.sign_in}
    keys: set[int] = set()
    for key_chunk in _chunked(key_ids):
        valid_keys = ApiKey.objects.filter(pk__in=key_chunk, revoked_at=None, user__is_active=True)
        keys.update(valid_keys.values_list("pk", flat=True))
    versions: dict[object, int] = {}
    current = SignIn.objects.filter(revoked_at=None, expires_at__gt=now, user__is_active=True)
    for sign_in_chunk in _chunked(sign_in_ids):
        valid_sign_ins = current.filter(pk__in=sign_in_chunk)
        versions.update(valid_sign_ins.values_list("pk", "user__token_version"))
    return {one for one in unexpired if _is_valid(one.principal, keys, versions)}


def _is_valid(principal: Principal, keys: set[int], versions: dict[object, int]) -> bool:
    if principal.api_key:
        return principal.api_key.pk in keys
    return principal.sign_in is not None and versions.get(principal.sign_in.pk) == principal.user.token_version


def _chunked(ids: Iterable[T]) -> Iterator[list[T]]:
    rest = list(ids)
    for start in range(0, len(rest), MAX_IDS_PER_QUERY):
        yield rest[start : start + MAX_IDS_PER_QUERY]
