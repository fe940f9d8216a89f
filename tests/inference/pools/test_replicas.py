"""Pools of replicas on this machine, with a real model host: whose error a request has, and its time limit."""

import os
import signal
import time
from collections.abc import AsyncIterator

import msgspec
import pytest
from pytest_django import Settings

from inference.engine import EngineOverloaded, GenerationRequest, LoadOptions, ModelState
from inference.local.replicas import LocalReplica, ReplicaClient
from inference.pools.affinity import affinity_key, rank_members
from inference.pools.client import PoolClient
from inference.pools.definitions import Pool, replica_pool
from tests.inference.engine.processes import RunningHost, eventually_in_state, request, running_host, status_of

TWO = LoadOptions(replicas=2)


@pytest.fixture
async def host(settings: Settings) -> AsyncIterator[RunningHost]:
    with running_host() as host:
        settings.RUN_DIR = host.run_dir
        yield host


def preferring(pool: Pool, number: int, prompt: str) -> GenerationRequest:
    """Return a request whose first choice is this replica."""
    for user in range(1000):
        made = msgspec.structs.replace(request(prompt), user=str(user))
        if rank_members(affinity_key(made), pool.members)[0] == pool.members[number]:
            return made
    raise AssertionError


async def test_the_error_of_a_loaded_replica_counts_and_not_that_another_one_restarts(host: RunningHost):
    await host.commands.load("m", host.folder("slow"), TWO)
    os.kill(await host.pid("m"), signal.SIGKILL)
    until = time.monotonic() + 20
    while (status := await status_of(host.commands, "m")) and status.replicas[0].state is not ModelState.LOADING:
        assert time.monotonic() < until
    client, pool = PoolClient(), replica_pool("m", 2)
    try:
        with pytest.raises(EngineOverloaded):
            await client.generate(pool, preferring(pool, 0, "full"))
    finally:
        await client.close()


async def test_the_status_does_not_wait_for_a_model_that_restarts(host: RunningHost):
    await host.commands.load("m", host.folder("slow"))
    client, whole_model = ReplicaClient(), LocalReplica("m", None)
    assert (await client.check(whole_model)).error is None
    os.kill(await host.pid("m"), signal.SIGKILL)
    await eventually_in_state(host.commands, "m", ModelState.LOADING)
    assert "restarting" in str((await client.status(whole_model)).error)
    await client.close()


async def test_the_time_at_another_replica_counts_for_the_time_limit(host: RunningHost):
    await host.commands.load("m", host.folder("m"), TWO)
    client = ReplicaClient()
    asked = msgspec.structs.replace(request("introduce", max_tokens=1), timeout=60.0)
    try:
        generation = await client.generate(LocalReplica("m", 1), asked, time.monotonic() + 30)
        [output] = [output async for output in generation.source]
    finally:
        await client.close()
    seconds = float(output.text.partition("timeout=")[2].split()[0])
    assert 0 < seconds <= 30
