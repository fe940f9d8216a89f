"""Replicas of a model, with real processes and real signals."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import pytest

from inference.engine import (
    EngineClient,
    EngineDied,
    EngineOverloaded,
    HostOptions,
    InvalidRequest,
    LoadOptions,
    ModelLoadFailed,
    ModelNotLoaded,
    ModelState,
    ReplicaStatus,
)
from inference.engine.host.backoff import MAX_USELESS_CRASHES
from inference.engine.host.replica import replica_environment
from tests.inference.engine.processes import (
    RunningHost,
    eventually,
    eventually_in_state,
    process_exists,
    read,
    request,
    running_host,
    start_host,
    status_of,
)

TWO, THREE = LoadOptions(replicas=2), LoadOptions(replicas=3)


@pytest.fixture
async def host() -> AsyncIterator[RunningHost]:
    with running_host() as host:
        yield host
        await host.engine.close()


async def replicas(host: RunningHost, model_id: str = "m") -> tuple[ReplicaStatus, ...]:
    status = await status_of(host.commands, model_id)
    assert status is not None
    return status.replicas


async def pids(host: RunningHost) -> list[int]:
    found = [replica.pid for replica in await replicas(host)]
    assert all(found)
    return [pid for pid in found if pid]


async def eventually_replica(host: RunningHost, number: int, state: ModelState) -> ReplicaStatus:
    until = time.monotonic() + 20
    while (replica := (await replicas(host))[number]).state is not state:
        assert time.monotonic() < until, replica
        await asyncio.sleep(0.02)
    return replica


async def crash_repeatedly(host: RunningHost, number: int) -> None:
    """Kill a replica's processes as often as is a crash loop."""
    killed: set[int] = set()
    until = time.monotonic() + 60
    while len(killed) < MAX_USELESS_CRASHES:
        assert time.monotonic() < until
        pid = (await eventually_replica(host, number, ModelState.LOADED)).pid
        if pid and pid not in killed:  # the host may not know yet that the last one has ended
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)


async def answering_pid(engine: EngineClient, replica: int) -> int:
    outputs = await read(await engine.generate("m", request("where", max_tokens=1), replica=replica))
    return int(outputs[0].text.split()[0])


async def test_a_model_with_replicas_is_loaded_once_all_are_and_counts_each(host: RunningHost) -> None:
    report = await host.commands.load("m", host.folder("m", memory=1000), THREE)
    assert (report.replicas, report.memory_usage_bytes) == (3, 3000)
    status = await status_of(host.commands, "m")
    assert status is not None
    assert status.memory_bytes == 3000
    assert [(one.number, one.state, one.error) for one in status.replicas] == [
        (number, ModelState.LOADED, None) for number in range(3)
    ]
    found = await pids(host)
    assert [await answering_pid(host.engine, number) for number in range(3)] == found
    assert len(set(found)) == 3
    assert await host.engine.replicas("m") == 3
    assert (await host.engine.stats("m")).slots == 3 * 16
    await host.commands.unload("m")
    assert not any(map(process_exists, found))


async def test_a_model_with_one_replica_lists_none(host: RunningHost) -> None:
    report = await host.commands.load("m", host.folder("m"))
    assert report.replicas == 1
    assert await replicas(host) == ()
    assert await host.engine.replicas("m") == 1


async def test_a_killed_replica_is_restarted_while_the_others_answer(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("slow"), TWO)
    first, second = await pids(host)
    running = await host.engine.generate("m", request(max_tokens=100), replica=1)
    os.kill(first, signal.SIGKILL)
    restarted = await eventually_replica(host, 0, ModelState.LOADING)
    assert restarted.error == "The model process ended (killed by SIGKILL)."
    status = await status_of(host.commands, "m")
    assert status is not None
    assert (status.state, status.error) == (ModelState.LOADED, None)
    assert await answering_pid(host.engine, 1) == second
    restarted = await eventually_replica(host, 0, ModelState.LOADED)
    assert restarted.pid not in (first, second)
    assert restarted.error is None
    assert await answering_pid(host.engine, 0) == restarted.pid
    assert len(await read(running)) == 100
    assert (await pids(host))[1] == second


async def test_requests_wait_while_all_replicas_restart(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"), TWO)
    before = await pids(host)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not any(map(process_exists, before)))
    outputs = []
    while not outputs:
        try:
            outputs = await read(await host.engine.generate("m", request("where", max_tokens=1)))
        except EngineDied:  # the process was still known as the last one
            await asyncio.sleep(0.05)
    assert int(outputs[0].text.split()[0]) not in before


async def test_unload_drains_all_replicas(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"), TWO)
    streams = [await host.engine.generate("m", request(max_tokens=40), replica=number) for number in range(2)]
    found = await pids(host)
    unloading = asyncio.create_task(host.commands.unload("m"))
    await eventually_in_state(host.commands, "m", ModelState.UNLOADING)
    for number in range(2):
        with pytest.raises(ModelNotLoaded):
            await host.engine.generate("m", request(), replica=number)
    assert [len(await read(stream)) for stream in streams] == [40, 40]
    await unloading
    assert not any(map(process_exists, found))
    assert await host.commands.models() == []


async def test_an_unload_during_the_load_of_later_replicas_ends_all(host: RunningHost) -> None:
    loading = asyncio.create_task(host.commands.load("m", host.folder("slow"), THREE))
    until = time.monotonic() + 20
    while (status := await status_of(host.commands, "m")) is None or not any(
        one.state is ModelState.LOADED for one in status.replicas
    ):
        assert time.monotonic() < until
        await asyncio.sleep(0.02)
    assert status.state is ModelState.LOADING
    found = await pids(host)
    await host.commands.unload("m")
    assert not any(map(process_exists, found))
    with pytest.raises(ModelLoadFailed, match="was unloaded"):
        await loading


async def test_a_broken_model_fails_at_its_first_replica(host: RunningHost) -> None:
    folder = host.folder("broken")
    with pytest.raises(ModelLoadFailed, match=r"The weights are missing\."):
        await host.commands.load("m", folder, THREE)
    assert len((folder / "loads").read_text().splitlines()) == 1
    status = await eventually_in_state(host.commands, "m", ModelState.FAILED)
    assert status.replicas == ()


async def test_another_number_of_replicas_drains_and_reloads_the_model(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"), TWO)
    before = await pids(host)
    stream = await host.engine.generate("m", request(max_tokens=30), replica=1)
    assert (await host.commands.load("m", host.folder("m"))).replicas == 1
    assert len(await read(stream)) == 30
    assert not any(map(process_exists, before))
    assert await host.engine.replicas("m") == 1


async def test_replicas_that_do_not_fit_into_the_budget_are_refused_with_the_figures() -> None:
    policy = HostOptions(memory_budget=2500, first_cooldown=0)
    with running_host(lambda run_dir: start_host(run_dir, policy)) as host:
        folder = host.folder("m", memory=1000)
        with pytest.raises(InvalidRequest) as refused:  # measured when the first one is loaded
            await host.commands.load("m", folder, THREE)
        assert refused.value.message == (
            "m needs about 3000 bytes (3 replicas of 1000) with these options, but the memory budget of all models is "
            "2500 (STOA_MEMORY_BUDGET). Load it with fewer `replicas`, a smaller `context_size` or `max_sequences`, or "
            "with `quantization` int8."
        )
        assert len((folder / "loads").read_text().splitlines()) == 1
        assert (await host.commands.load("m", folder, TWO)).memory_usage_bytes == 2000
        with pytest.raises(EngineOverloaded, match="other, which needs about 1000 bytes: other models use it"):
            await host.commands.load("other", host.folder("other", memory=1000))
        await host.engine.close()


async def test_an_idle_model_is_evicted_with_all_of_its_replicas_and_loaded_again_with_them() -> None:
    policy = HostOptions(max_loaded=1, evict=True, reservation=0, first_cooldown=0)
    with running_host(lambda run_dir: start_host(run_dir, policy)) as host:
        await host.commands.load("m", host.folder("m"), TWO)
        found = await pids(host)
        await host.commands.load("other", host.folder("other"))
        assert not any(map(process_exists, found))
        status = await status_of(host.commands, "m")
        assert status is not None
        assert (status.state, status.suspended, status.error) == (ModelState.UNLOADED, True, None)
        report = await host.commands.use("m", host.folder("m"), LoadOptions())
        assert report.replicas == 2
        await host.engine.close()


async def test_a_model_that_is_killed_while_it_is_asked_to_end_is_loading_again() -> None:
    policy = HostOptions(max_loaded=1, evict=True, reservation=0, first_cooldown=0)
    with running_host(lambda run_dir: start_host(run_dir, policy)) as host:
        await host.commands.load("m", host.folder("slow"))
        pid = await host.pid("m")
        os.kill(pid, signal.SIGSTOP)
        loading = asyncio.create_task(host.commands.load("other", host.folder("other")))
        await asyncio.sleep(0.5)  # the host asks the process to end, which cannot answer
        os.kill(pid, signal.SIGKILL)
        await eventually_in_state(host.commands, "m", ModelState.LOADING)
        await loading
        await host.engine.close()


async def test_a_model_with_one_busy_replica_is_not_evicted() -> None:
    policy = HostOptions(max_loaded=1, evict=True, reservation=0, first_cooldown=0, admission_timeout=1)
    with running_host(lambda run_dir: start_host(run_dir, policy)) as host:
        await host.commands.load("m", host.folder("m"), TWO)
        found = await pids(host)
        stream = await host.engine.generate("m", request("silence"), replica=1)
        with pytest.raises(EngineOverloaded):
            await host.commands.load("other", host.folder("other"))
        assert await pids(host) == found
        await stream.close()
        await host.engine.close()


async def test_a_replica_in_a_crash_loop_rests_while_the_others_answer() -> None:
    policy = HostOptions(first_cooldown=2)
    with running_host(lambda run_dir: start_host(run_dir, policy)) as host:
        await host.commands.load("m", host.folder("m"), TWO)
        survivor = (await pids(host))[1]
        await crash_repeatedly(host, 0)
        rested = await eventually_replica(host, 0, ModelState.FAILED)
        assert rested.error is not None
        assert "crashed repeatedly" in rested.error
        assert await answering_pid(host.engine, 1) == survivor
        restored = await eventually_replica(host, 0, ModelState.LOADED)
        assert restored.error is None
        await host.engine.close()


async def test_a_model_whose_replicas_all_crash_repeatedly_has_failed() -> None:
    policy = HostOptions(first_cooldown=60)
    with running_host(lambda run_dir: start_host(run_dir, policy)) as host:
        await host.commands.load("m", host.folder("m"), TWO)
        for number in (0, 1):
            await crash_repeatedly(host, number)
        status = await eventually_in_state(host.commands, "m", ModelState.FAILED)
        assert status.error is not None
        assert "crashed repeatedly" in status.error
        assert status.retry_after is not None


async def test_each_replica_has_a_gpu_and_a_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with running_host() as host:
        await host.commands.load("m", host.folder("m"), LoadOptions(replicas=3, gpu_layers=1))
        assert [one.device for one in await replicas(host)] == ["4", "7", "4"]
        texts = []
        for number in range(3):
            outputs = await read(await host.engine.generate("m", request("where", max_tokens=1), replica=number))
            texts.append(outputs[0].text.split()[1:])
        assert texts == [["4", "1"], ["7", "1"], ["4", "1"]]
        await host.engine.close()


def test_a_replica_of_an_engine_that_shards_has_several_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    options = LoadOptions(engine="vllm", engine_options=(("tensor_parallel_size", 2),), replicas=2)
    devices = [replica_environment(number, options)["CUDA_VISIBLE_DEVICES"] for number in range(2)]
    assert devices == ["0,1", "2,3"]


def test_a_replica_on_the_cpu_has_no_gpu_of_its_own_and_no_fixed_part_of_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert replica_environment(0, TWO) == {}


def test_one_replica_keeps_the_environment_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert replica_environment(0, LoadOptions()) == {}
