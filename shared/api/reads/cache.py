"""Cache of public responses, in each process, for clients that send no credentials.

A response is kept for PUBLIC_CACHE_SECONDS at most, and forgotten with the next write: every transaction of the project
that changes another table than UNCACHED_TABLES raises a number in Redis, and the number at the time of the request is
part of the response's name. So no process answers with what was true before a write that has been acknowledged, unless
Redis failed just then, and for no longer than the setting. Without Redis nothing is kept.
"""

import functools
import hashlib
import re
import time
from collections.abc import Callable
from typing import Any

import redis
import structlog
from django.conf import settings
from django.core.cache.backends.locmem import LocMemCache
from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import get_language

from shared.api.limits.counters import STORE_COOLDOWN_SECONDS, STORE_TIMEOUT_SECONDS

MAX_RESPONSES = 500
MAX_BODY_BYTES = 64 * 1024
_READ = re.compile(r"\s*(?:SELECT|SAVEPOINT|RELEASE|ROLLBACK|BEGIN|COMMIT|EXPLAIN|PRAGMA|SET|SHOW)\b", re.IGNORECASE)
_TABLE = re.compile(r'(?:INSERT(?: OR [A-Z]{1,9})? INTO|UPDATE|DELETE FROM) "(\w{1,63})"')
_CREDENTIALS = ("Authorization", "X-API-Key", "Cookie")
_NEGOTIATED = ("Accept", "Accept-Language")
_OWN_TO_A_REQUEST = ("x-ratelimit-", "retry-after")

logger = structlog.get_logger(__name__)

ViewFunction = Callable[..., HttpResponseBase]


class WriteCounter:
    """Number in Redis that each committed write raises, shared by all processes of a project."""

    def __init__(self, url: str, name: str) -> None:
        self._redis = redis.Redis.from_url(
            url, socket_timeout=STORE_TIMEOUT_SECONDS, socket_connect_timeout=STORE_TIMEOUT_SECONDS
        )
        self._name = name
        self._paused_until = 0.0

    def read(self) -> bytes | None:
        """Return the number, or None if Redis does not answer or has not for a moment."""
        if time.monotonic() < self._paused_until:
            return None
        try:
            return self._redis.get(self._name) or b"0"  # type: ignore[return-value]  # no coroutine: redis' stubs
        except redis.RedisError as error:
            self._pause(error)
            return None

    def increment(self) -> None:
        try:
            self._redis.incr(self._name)
        except redis.RedisError as error:
            self._pause(error)

    def _pause(self, error: redis.RedisError) -> None:
        self._paused_until = time.monotonic() + max(STORE_COOLDOWN_SECONDS, _seconds())
        logger.warning("public_cache_unavailable", reason=type(error).__name__)


def kept(view: ViewFunction) -> ViewFunction:
    """Decorate a view whose responses to clients without credentials are the same for all of them."""

    @functools.wraps(view)
    def respond(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        name = _response_name(request)
        if name is None:
            return view(request, *args, **kwargs)
        if known := _responses().get(name):
            content, headers = known
            return HttpResponse(content, headers=headers)
        response = view(request, *args, **kwargs)
        if hasattr(response, "add_post_render_callback"):
            response.add_post_render_callback(functools.partial(_keep, name))
        else:
            _keep(name, response)
        return response

    return respond


def _is_on() -> bool:
    return bool(_seconds() and settings.REDIS_URL)


def _seconds() -> int:
    """Return the setting, which only a project with public responses has."""
    return int(getattr(settings, "PUBLIC_CACHE_SECONDS", 0))


def _response_name(request: HttpRequest) -> str | None:
    """Return what the response depends on, or None for a request that is not answered from the cache."""
    if not _is_on() or request.method != "GET":
        return None
    if any(request.headers.get(name) for name in _CREDENTIALS):
        return None
    writes = _write_counter(settings.REDIS_URL, settings.PROJECT).read()
    if writes is None:
        return None
    asked = [request.headers.get(name, "") for name in _NEGOTIATED]
    parts = [writes.decode(), request.build_absolute_uri(), get_language() or "", *asked]
    return hashlib.sha256("\n".join(parts).encode(errors="replace")).hexdigest()


def _keep(name: str, response: HttpResponseBase) -> None:
    if not isinstance(response, HttpResponse) or response.status_code != 200 or response.cookies:
        return
    if len(response.content) > MAX_BODY_BYTES:
        return
    headers = {header: value for header, value in response.items() if not header.lower().startswith(_OWN_TO_A_REQUEST)}
    _responses().set(name, (response.content, headers), timeout=_seconds())


def watch_writes() -> None:
    """Count the writes of every database connection that is opened from now on."""
    connection_created.connect(_watch_connection, dispatch_uid="shared.api.reads.cache")


def _watch_connection(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    if _is_on() and _note_write not in connection.execute_wrappers:
        connection.execute_wrappers.append(_note_write)


def _note_write(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    result = execute(sql, params, many, context)
    if not _READ.match(sql):
        table = _TABLE.match(sql)
        if table is None or table[1] not in getattr(settings, "UNCACHED_TABLES", ()):
            _forget_on_commit(context["connection"])
    return result


def _forget_on_commit(connection: BaseDatabaseWrapper) -> None:
    waiting = connection.run_on_commit
    if not waiting or waiting[-1][1] is not forget_all:  # once for writes in a row
        transaction.on_commit(forget_all, using=connection.alias, robust=True)


def forget_all() -> None:
    """Forget every kept response, in all processes."""
    if _is_on():
        _write_counter(settings.REDIS_URL, settings.PROJECT).increment()


@functools.cache
def _responses() -> LocMemCache:
    return LocMemCache("public-reads", {"OPTIONS": {"MAX_ENTRIES": MAX_RESPONSES}})


@functools.cache
def _write_counter(url: str, project: str) -> WriteCounter:
    return WriteCounter(url, f"stoa:{project}:writes")
