"""The overflow rule of a pool with a local member: which of its members a request is sent to first."""

import asyncio
from dataclasses import replace

from inference.engine import EngineError
from inference.local.clients import engine
from inference.local.replicas import LocalReplica
from inference.pools.client import pool_client
from inference.pools.definitions import REPLICA_SEPARATOR, Member, Pool

STATS_SECONDS = 1.0  # a process answers within a step


async def order_members(local: Member, others: tuple[Member, ...], replica_count: int) -> Pool:
    """Return a pool of the replicas of a local member, which is loaded, and of other members.

    The replicas come first, or last while as many requests wait at them as may.
    """
    is_full = bool(others) and await _is_full(local)
    replicas = [local] if replica_count == 1 else [_replica(local, number) for number in range(replica_count)]
    return Pool(
        local.model.id,
        (
            *(replace(member, order=int(is_full)) for member in replicas),
            *(replace(member, order=int(not is_full)) for member in others),
        ),
    )


async def _is_full(local: Member) -> bool:
    """Return whether the local model has all its slots taken, and as many requests waiting as it may have.

    The engine counts those of all processes. Those that this process has just sent may not be among them yet. One that
    does not say so in time is taken for full.
    """
    try:
        async with asyncio.timeout(STATS_SECONDS):
            stats = await engine().stats(local.model.id)
    except TimeoutError:
        return True
    except EngineError:
        return False
    taken = max(stats.running + stats.waiting, pool_client().load(local))
    return taken - stats.slots >= local.max_waiting


def _replica(local: Member, number: int) -> Member:
    model = LocalReplica(local.model.id, number)
    return replace(local, name=f"{local.name}{REPLICA_SEPARATOR}{number}", model=model)
