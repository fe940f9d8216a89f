"""Read replicas of the PostgreSQL server: the reads of requests that change nothing go to them.

A GET or HEAD that a blocking view answers may read a replica, unless its client has written within the last
`STOA_REPLICA_MAX_LAG_SECONDS`: clients see their own writes. What decides who may do what (accounts, keys, sessions) is
always read from the primary, and so is everything after the first write of a request or inside a transaction, by
workers and by raw SQL. A replica that lags by more than those seconds, or does not answer, gets no reads.
"""

import asyncio
import hashlib
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from decimal import Decimal
from functools import cache
from typing import Any

import redis
import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db import Error as DatabaseError
from django.db.models import Model
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from shared.middleware import Middleware

CHECK_SECONDS = 1.0  # between two looks at a replica's lag
PAUSE_SECONDS = 5.0  # until a replica, or Redis, is asked again after a failure
REDIS_TIMEOUT_SECONDS = 0.5
READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PRIMARY_APPS = frozenset({"accounts", "admin", "api", "audit", "auth", "contenttypes", "sessions"})
_PRIMARY_POSITION = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
_REPLICA_POSITION = "SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')"

logger = structlog.get_logger(__name__)

# The database of the request's reads. All are of one: another replica may not have a row yet to which the first leads.
_UNDECIDED = ""
_reads_from: ContextVar[str] = ContextVar("reads_from", default=DEFAULT_DB_ALIAS)


class Replica:
    """A replica, as this process knows it."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._lock = threading.Lock()
        self._positions: deque[tuple[float, Decimal]] = deque()  # of the primary, by the time when they were read
        self._is_usable = False
        self._check_at = 0.0

    def is_usable(self) -> bool:
        """Return whether it answers and has all that the primary had STOA_REPLICA_MAX_LAG_SECONDS ago.

        While a thread checks it, which takes seconds where it does not answer, it is not usable for others.
        """
        if time.monotonic() < self._check_at:
            return self._is_usable
        if not self._lock.acquire(blocking=False):
            return False
        try:
            was_usable, self._is_usable = self._is_usable, self._has_caught_up()
            if was_usable and not self._is_usable:
                logger.warning("replica_not_used", replica=self._alias)
            return self._is_usable
        finally:
            self._lock.release()

    def check_again(self) -> None:
        """Let the next read check it, since one has failed."""
        connections[self._alias].close()  # this thread's, which may be broken
        self._check_at = 0.0

    def _has_caught_up(self) -> bool:
        now = time.monotonic()
        try:
            self._positions.append((now, _position(DEFAULT_DB_ALIAS, _PRIMARY_POSITION) or Decimal(0)))
            while self._positions[0][0] < now - settings.REPLICA_MAX_LAG_SECONDS:
                self._positions.popleft()
            replayed = _position(self._alias, _REPLICA_POSITION)
        except DatabaseError:
            connections[self._alias].close()
            self._check_at = time.monotonic() + PAUSE_SECONDS
            return False
        self._check_at = now + CHECK_SECONDS
        return replayed is not None and replayed >= self._positions[0][1]


def _position(alias: str, statement: str) -> Decimal | None:
    """Return how many bytes of changes a server has; None for a replica that is a primary of its own by now."""
    with connections[alias].cursor() as cursor:
        cursor.execute(statement)
        position: Decimal | None = cursor.fetchone()[0]
    return position


@cache
def _replica(alias: str) -> Replica:
    return Replica(alias)


def _choose_database() -> str:
    usable = [alias for alias in settings.DATABASES if alias != DEFAULT_DB_ALIAS and _replica(alias).is_usable()]
    return random.choice(usable or [DEFAULT_DB_ALIAS])  # noqa: S311 - no secret


class ReplicaRouter:
    """Database router, for DATABASE_ROUTERS."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str:
        if _reads_from.get() == DEFAULT_DB_ALIAS or model._meta.app_label in PRIMARY_APPS:
            return DEFAULT_DB_ALIAS
        if connections[DEFAULT_DB_ALIAS].in_atomic_block:
            return DEFAULT_DB_ALIAS
        if _reads_from.get() == _UNDECIDED:
            _reads_from.set(_choose_database())
        return _reads_from.get()

    def db_for_write(self, model: type[Model], **hints: Any) -> str:
        _reads_from.set(DEFAULT_DB_ALIAS)
        return DEFAULT_DB_ALIAS

    def allow_relation(self, *_: Model, **hints: Any) -> bool:
        return True  # all have the same rows

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == DEFAULT_DB_ALIAS


class RecentWrites:
    """The clients who have written within the last seconds, in Redis."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(
            url, socket_timeout=REDIS_TIMEOUT_SECONDS, socket_connect_timeout=REDIS_TIMEOUT_SECONDS
        )
        self._paused_until = 0.0
        self._incomplete_until = 0.0

    def note(self, client: str) -> None:
        # A replica in use lags by the limit at most, and by one more check.
        kept_seconds = settings.REPLICA_MAX_LAG_SECONDS + CHECK_SECONDS
        if self._ask(lambda: self._redis.set(client, 1, px=round(kept_seconds * 1000))) is None:
            self._incomplete_until = time.monotonic() + kept_seconds

    def include(self, client: str) -> bool:
        """Return whether the client has written, or may have: Redis does not answer, or did not when a client wrote."""
        return time.monotonic() < self._incomplete_until or self._ask(lambda: self._redis.exists(client)) != 0

    def _ask(self, ask: Callable[[], Any]) -> Any:
        """Return the reply, or None without one: of a Redis that has just failed nothing is asked."""
        if time.monotonic() < self._paused_until:
            return None
        try:
            return ask()
        except redis.RedisError:
            self._paused_until = time.monotonic() + PAUSE_SECONDS
            return None


@cache
def _recent_writes() -> RecentWrites:
    return RecentWrites(settings.REDIS_URL)


def _client(request: HttpRequest) -> str:
    """Return what names the client: its credential, else its address."""
    cookie = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
    who = request.headers.get("Authorization") or request.headers.get("X-API-Key") or cookie
    named = who or str(request.META.get("REMOTE_ADDR", ""))
    return f"stoa:{settings.PROJECT}:wrote:{hashlib.sha256(named.encode(errors='replace')).hexdigest()}"


class ReplicaMiddleware(Middleware):
    """Middleware that lets the blocking views of reads use replicas, and notes who writes."""

    def respond(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase
        if request.method not in READING_METHODS:
            try:
                response = self.get_response(request)
                return response
            finally:
                _recent_writes().note(_client(request))
        token = _reads_from.set(DEFAULT_DB_ALIAS if _recent_writes().include(_client(request)) else _UNDECIDED)
        try:
            response = self.get_response(request)
            alias = _reads_from.get()
            if response.status_code == 503 and alias not in (_UNDECIDED, DEFAULT_DB_ALIAS):
                _replica(alias).check_again()
                _reads_from.set(DEFAULT_DB_ALIAS)
                response = self.get_response(request)
            return response
        finally:
            _reads_from.reset(token)

    async def arespond(self, request: HttpRequest) -> HttpResponseBase:
        try:
            response: HttpResponseBase = await self.get_response(request)
            return response
        finally:
            if request.method not in READING_METHODS:
                await asyncio.to_thread(_recent_writes().note, _client(request))
