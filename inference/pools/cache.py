"""The pools as this process last read them from the database: at most REFRESH_SECONDS ago, or while it answered."""

import threading
import time

import msgspec
from django.db import Error as DatabaseError

from inference.local.replicas import LocalReplica
from inference.pools.definitions import LOCAL, Member, Pool
from inference.pools.models import PoolMember
from inference.remote.configuration import RemoteModel
from shared.encryption import DecryptionFailed, decrypt
from shared.serving.db_threads import run_in_db_thread

REFRESH_SECONDS = 2.0
UNREADABLE_KEY = (
    "Its API key is encrypted under an unknown SECRET_KEY: set the key again, or add the former SECRET_KEY to "
    "STOA_SECRET_KEY_FALLBACKS."
)

UNUSABLE_SETTINGS = "Its settings cannot be used: {error}. Change the member, or remove it."
UNUSABLE_URL = "http://member.invalid/v1"  # a name that no server can have, of members that get no requests

_lock = threading.Lock()
_pools: dict[str, Pool] | None = None  # None: not yet read
_fresh_until = float("-inf")


async def find_pool(model_id: str) -> Pool | None:
    """Return the pool of a model, or None for a model of this machine alone or an unknown one."""
    pools = await run_in_db_thread(read_pools) if time.monotonic() > _fresh_until else _pools
    return (pools or {}).get(model_id)


def are_pools_known() -> bool:
    """Return whether this process has read the pools. Otherwise a model that it does not find may be one of them."""
    return _pools is not None


def read_pools() -> dict[str, Pool]:
    """Return all pools by model id. It may read the database, so call it in a thread.

    Without a database they are those that were read last, and none before that.
    """
    global _fresh_until
    with _lock:
        now = time.monotonic()
        if now <= _fresh_until:
            return _pools or {}
        if now > _fresh_until + REFRESH_SECONDS:  # too old to go on with: the others wait
            return _refresh()
        _fresh_until = now + REFRESH_SECONDS
    return _refresh()


def expire() -> None:
    """Make the next caller read the database, after a change by this process."""
    _set(_pools, float("-inf"))


def use_only(*pools: Pool) -> None:
    """Use these pools in this process from now on, whatever the database has."""
    _set({pool.model_id: pool for pool in pools}, float("inf"))


def _refresh() -> dict[str, Pool]:
    pools: dict[str, Pool] | None
    try:
        pools = _read()
    except DatabaseError:  # reported by what else needs it
        pools = _pools
    _set(pools, time.monotonic() + REFRESH_SECONDS)
    return pools or {}


def _set(pools: dict[str, Pool] | None, fresh_until: float) -> None:
    global _pools, _fresh_until
    _pools, _fresh_until = pools, fresh_until


def _read() -> dict[str, Pool]:
    members: dict[str, list[Member]] = {}
    for row in PoolMember.objects.all():
        members.setdefault(row.model_id, []).append(member_of(row))
    return {model_id: Pool(model_id, tuple(found)) for model_id, found in members.items()}


def member_of(row: PoolMember) -> Member:
    """Return the member of a row, with its key decrypted. One that cannot be used has an error instead."""
    is_draining = row.state == PoolMember.State.DRAINING
    if row.kind == LOCAL:
        return Member(row.name, LocalReplica(row.model_id, None), 1, is_draining, max_waiting=row.max_waiting)
    api_key, error = "", None
    try:
        api_key = row.api_key and decrypt(row.api_key)
    except DecryptionFailed:
        error = UNREADABLE_KEY
    values = {
        "id": row.model_id,
        "base_url": row.base_url,
        "api_key": api_key,
        "model": row.model_name,
        "dialect": row.kind,
        "capabilities": row.capabilities,
        "context_size": row.context_size,
        "stream_usage": row.stream_usage,
        "connect_timeout": row.connect_timeout,
        "first_token_timeout": row.first_token_timeout,
        "token_timeout": row.token_timeout,
    }
    try:
        model = msgspec.convert(values, RemoteModel)
    except msgspec.ValidationError as invalid:  # written by an older version, or past the admin and `stoa pools`
        error = UNUSABLE_SETTINGS.format(error=invalid)
        model = RemoteModel(id=row.model_id, base_url=UNUSABLE_URL)
    return Member(row.name, model, row.weight, is_draining, error, takes_batches=row.takes_batches)
