"""Several models on one machine: budget, eviction, idle unload, loading by requests and cooldowns. Real processes."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator

import pytest

from inference.engine import (
    EngineOverloaded,
    FinishReason,
    HostOptions,
    InvalidRequest,
    LoadOptions,
    LoadReport,
    ModelLoadFailed,
    ModelNotLoaded,
    ModelState,
)
from inference.engine.process_memory import tree_bytes
from tests.inference.engine.processes import (
    RunningHost,
    eventually,
    eventually_idle,
    eventually_in_state,
    process_exists,
    read,
    request,
    running_host,
    start_host,
    status_of,
)


@contextlib.asynccontextmanager
async def host_with(**policy: float | bool | None) -> AsyncIterator[RunningHost]:
    chosen = HostOptions(**{"first_cooldown": 0.0, "drain_after": 0.2, "reservation": 0.0} | policy)  # type: ignore[arg-type]
    with running_host(functools.partial(start_host, policy=chosen)) as host:
        yield host
        await host.engine.close()


async def load(host: RunningHost, name: str, **given: object) -> LoadReport:
    return await host.commands.load(name, host.folder(name), **given)  # type: ignore[arg-type]


async def use(host: RunningHost, name: str) -> LoadReport:
    return await host.commands.use(name, host.folder(name), LoadOptions())


async def say(host: RunningHost, name: str) -> int:
    """Return the number of tokens of one generation."""
    return len(await read(await host.engine.generate(name, request())))


async def states(host: RunningHost) -> dict[str, str]:
    return {status.model_id: str(status.state) for status in await host.commands.models()}


async def test_a_load_evicts_the_model_used_longest_ago() -> None:
    async with host_with(max_loaded=2, evict=True) as host:
        await load(host, "a")
        await load(host, "b")
        await say(host, "a")
        await eventually_idle(host.engine, "a")
        pid_of_a, pid_of_b = await host.pid("a"), await host.pid("b")
        await load(host, "c")
        assert await states(host) == {"a": "loaded", "b": "unloaded", "c": "loaded"}
        assert await host.pid("a") == pid_of_a
        assert not process_exists(pid_of_b)


async def test_a_busy_model_is_never_evicted_and_its_stream_continues() -> None:
    async with host_with(max_loaded=2, evict=True) as host:
        await load(host, "busy")
        stream = await host.engine.generate("busy", request(max_tokens=100_000))
        await load(host, "idle")
        await load(host, "new")
        assert await states(host) == {"busy": "loaded", "idle": "unloaded", "new": "loaded"}
        assert (await anext(stream)).finish_reason is None
        await stream.close()


async def test_a_load_waits_for_a_busy_model_to_become_idle() -> None:
    async with host_with(max_loaded=1, evict=True) as host:
        await load(host, "busy")
        stream = await host.engine.generate("busy", request(max_tokens=50))
        loading = asyncio.create_task(load(host, "new"))
        status = await eventually_in_state(host.commands, "new", ModelState.LOADING)
        assert (status.progress, status.pid) == (0.0, None)
        outputs = await read(stream)
        assert (len(outputs), outputs[-1].finish_reason) == (50, FinishReason.LENGTH)
        await loading
        assert await states(host) == {"busy": "unloaded", "new": "loaded"}


async def test_without_eviction_a_load_is_rejected_with_retry_after() -> None:
    async with host_with(max_loaded=1) as host:
        await load(host, "a")
        with pytest.raises(EngineOverloaded) as refused:
            await load(host, "b")
        assert refused.value.details == {"retry_after": 5, "reason": "no_room"}
        assert await states(host) == {"a": "loaded"}


async def test_the_measured_memory_is_used_at_the_next_load() -> None:
    async with host_with(memory_budget=100, evict=True) as host:
        host.folder("large", memory=80)
        host.folder("small", memory=30)
        await load(host, "small")
        await load(host, "large")
        assert await states(host) == {"small": "unloaded", "large": "loaded"}
        status = await status_of(host.commands, "large")
        assert status is not None
        assert status.memory_bytes == 80
        assert status.resident_bytes is not None
        assert status.resident_bytes > 2**20
        await host.commands.unload("large")
        await load(host, "small")
        stream = await host.engine.generate("small", request(max_tokens=100_000))
        loading = asyncio.create_task(load(host, "large"))
        status = await eventually_in_state(host.commands, "large", ModelState.LOADING)
        assert (status.pid, status.memory_bytes) == (None, 80)
        await stream.close()
        await loading


async def test_a_model_over_the_budget_is_ended_and_its_next_load_is_rejected_before_it_starts() -> None:
    async with host_with(memory_budget=100) as host:
        folder = host.folder("huge", memory=101)
        for _ in range(2):
            with pytest.raises(InvalidRequest, match="101 bytes"):
                await load(host, "huge")
            assert await states(host) == {}
        assert len((folder / "loads").read_text().splitlines()) == 1


async def test_options_over_the_memory_budget_restore_the_model() -> None:
    async with host_with(memory_budget=100) as host:
        folder = host.folder("m", memory=60)
        (folder / "memory-3").write_text("120")
        await load(host, "m")
        with pytest.raises(InvalidRequest):
            await load(host, "m", options=LoadOptions(max_sequences=3))
        status = await eventually_in_state(host.commands, "m", ModelState.LOADED)
        assert status.options == LoadOptions()


async def test_a_request_reloads_an_evicted_model_with_its_options() -> None:
    async with host_with(max_loaded=1, evict=True) as host:
        await load(host, "a", options=LoadOptions(context_size=32), revision=7)
        await load(host, "b")
        with pytest.raises(ModelNotLoaded) as refused:
            await host.engine.generate("a", request())
        assert refused.value.details == {"state": "unloaded"}
        assert (await use(host, "a")).context_size == 32
        assert await say(host, "a") == 5
        status = await status_of(host.commands, "a")
        assert status is not None
        assert status.revision == 7


async def test_a_request_loads_a_model_only_with_autoload() -> None:
    async with host_with() as host:
        with pytest.raises(ModelNotLoaded) as refused:
            await use(host, "m")
        assert refused.value.details == {"state": "unloaded"}
        assert await states(host) == {}
    async with host_with(autoload=True) as host:
        await asyncio.gather(*(use(host, "slow") for _ in range(20)))
        assert len((host.folder("slow") / "loads").read_text().splitlines()) == 1


async def test_requests_wait_for_an_operators_load_only_with_autoload() -> None:
    for autoload in (False, True):
        async with host_with(autoload=autoload) as host:
            loading = asyncio.create_task(load(host, "slow", options=LoadOptions(context_size=32)))
            await eventually_in_state(host.commands, "slow", ModelState.LOADING)
            if autoload:
                assert (await use(host, "slow")).context_size == 32
            else:
                with pytest.raises(ModelNotLoaded) as refused:
                    await use(host, "slow")
                assert refused.value.details["retry_after"] >= 1
            await loading


async def test_a_model_loaded_for_a_request_is_reserved_until_it_arrives() -> None:
    async with host_with(max_loaded=1, evict=True, autoload=True, reservation=30.0) as host:
        await use(host, "a")
        loading = asyncio.create_task(load(host, "b"))
        await eventually_in_state(host.commands, "b", ModelState.LOADING)
        assert await say(host, "a") == 5
        await loading
        assert await states(host) == {"a": "unloaded", "b": "loaded"}


async def test_busy_models_are_drained_for_waiting_requests() -> None:
    async with host_with(max_loaded=1, evict=True, autoload=True) as host:
        served: list[int] = []

        async def keep_busy() -> None:
            while "new" not in await states(host) or not served:
                with contextlib.suppress(ModelNotLoaded):
                    await use(host, "busy")
                    served.append(await say(host, "busy"))

        await use(host, "busy")
        clients = [asyncio.create_task(keep_busy()) for _ in range(3)]
        await eventually(lambda: len(served) > 3)
        heard: list[int] = []
        while not heard:
            with contextlib.suppress(ModelNotLoaded):  # its time was up before we asked, and others were in line
                await use(host, "new")
                heard.append(await say(host, "new"))
        assert heard == [5]
        await asyncio.gather(*clients)
        assert set(served) == {5}


async def test_an_unused_model_is_unloaded_and_a_request_loads_it_again() -> None:
    async with host_with(idle_unload=0.5) as host:
        await load(host, "m")
        pid = await host.pid("m")
        stream = await host.engine.generate("m", request(max_tokens=150))
        assert len(await read(stream)) == 150  # longer than it may be unused
        status = await eventually_in_state(host.commands, "m", ModelState.UNLOADED)
        assert status.suspended
        assert not process_exists(pid)
        await use(host, "m")
        assert await say(host, "m") == 5


async def test_stats_calls_do_not_count_as_use() -> None:
    async with host_with() as host:
        await load(host, "m")
        await say(host, "m")
        await eventually_idle(host.engine, "m")
        before = await status_of(host.commands, "m")
        for _ in range(5):
            await host.engine.stats("m")
        after = await status_of(host.commands, "m")
        assert before is not None
        assert after is not None
        assert (after.busy, after.used_at) == (False, before.used_at)


async def test_fifty_loads_and_unloads_leave_the_host_its_memory() -> None:
    async with host_with() as host:
        first = 0
        for number in range(50):
            await load(host, "m")
            assert await say(host, "m") == 5
            await host.commands.unload("m")
            if number == 4:  # what is imported and cached once is not a leak
                first = tree_bytes(host.process.pid)
        assert tree_bytes(host.process.pid) <= 1.05 * first


async def test_a_background_load_evicts_no_model_and_is_suspended_until_a_request() -> None:
    async with host_with(max_loaded=1, evict=True) as host:
        await load(host, "a")
        with pytest.raises(EngineOverloaded):
            await load(host, "b", background=True, revision=3)
        assert await states(host) == {"a": "loaded", "b": "unloaded"}
        await use(host, "b")
        assert await states(host) == {"a": "unloaded", "b": "loaded"}


async def test_a_failed_model_has_a_cooldown_that_doubles() -> None:
    async with host_with(first_cooldown=3.0) as host:
        folder = host.folder("broken")
        with pytest.raises(ModelLoadFailed) as first:
            await load(host, "broken")
        assert first.value.details == {}
        with pytest.raises(ModelLoadFailed, match=r"tried again in \d s\. The weights are missing\.") as second:
            await load(host, "broken")
        assert 1 <= second.value.details["retry_after"] <= 3
        with pytest.raises(ModelNotLoaded) as asked:
            await host.engine.generate("broken", request())
        assert 1 <= asked.value.details["retry_after"] <= 3
        assert len((folder / "loads").read_text().splitlines()) == 1
        await asyncio.sleep(3.1)
        with pytest.raises(ModelLoadFailed, match="weights are missing") as third:
            await load(host, "broken")
        assert third.value.details == {}
        with pytest.raises(ModelLoadFailed) as fourth:
            await load(host, "broken")
        assert 1 <= fourth.value.details["retry_after"] <= 6


@pytest.mark.parametrize("how", ["files", "options", "unload"])
async def test_other_files_other_options_or_an_unload_end_the_cooldown(how: str) -> None:
    async with host_with(first_cooldown=100.0) as host:
        folder = host.folder("broken")
        with pytest.raises(ModelLoadFailed):
            await load(host, "broken")
        options = LoadOptions()
        if how == "files":
            (folder / "config.json").write_text("{}")
        elif how == "options":
            options = LoadOptions(batch_size=3)
        else:
            await host.commands.unload("broken")
        with pytest.raises(ModelLoadFailed) as again:
            await load(host, "broken", options=options)
        assert again.value.details == {}
        assert len((folder / "loads").read_text().splitlines()) == 2


async def test_a_newer_revision_of_a_loaded_model_only_updates_its_revision() -> None:
    async with host_with() as host:
        await load(host, "m")
        pid = await host.pid("m")
        await load(host, "m", revision=4)
        status = await status_of(host.commands, "m")
        assert status is not None
        assert (status.pid, status.revision) == (pid, 4)


async def test_a_background_load_of_an_old_revision_changes_nothing() -> None:
    async with host_with() as host:
        await load(host, "m", options=LoadOptions(context_size=64), revision=4)
        pid = await host.pid("m")
        report = await load(host, "m", options=LoadOptions(context_size=32), revision=4, background=True)
        assert (report.context_size, await host.pid("m")) == (64, pid)
        report = await load(host, "m", options=LoadOptions(context_size=32), revision=5, background=True)
        assert report.context_size == 32
