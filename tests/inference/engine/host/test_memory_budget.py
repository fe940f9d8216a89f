"""The memory budget: admission, waiting and eviction, with fake models."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from inference.engine import EngineOverloaded, HostOptions, InvalidRequest
from inference.engine.host.memory_budget import MemoryBudget
from tests.inference.engine.processes import eventually


@dataclass(eq=False)
class FakeBudgetedModel:
    model_id: str
    budget: MemoryBudget
    log: list[str]
    memory_bytes: int = 1
    load_bytes: int = 0
    pending_bytes: int = 0
    replica_count: int = 1
    used_at: float = field(default_factory=time.monotonic)
    is_idle: bool = False
    is_loaded: bool = False
    is_reserved: bool = False
    is_unloading: bool = False

    async def load(self, *, may_evict: bool = True, idle: bool = True) -> None:
        await self.budget.admit(self, may_evict=may_evict)
        self.log.append(f"+{self.model_id}")
        self.is_loaded, self.is_idle, self.used_at = True, idle, time.monotonic()
        self.budget.notify_changed()

    async def unload_if_idle(self) -> bool:
        self.is_idle, self.is_unloading = False, True
        await asyncio.sleep(0)
        self.gone()
        return True

    def drain(self) -> None:
        self.is_unloading = True
        self.log.append(f"drained {self.model_id}")

    def gone(self) -> None:
        self.is_loaded = self.is_idle = self.is_unloading = False
        self.log.append(f"-{self.model_id}")
        self.budget.release(self)

    def become_idle(self) -> None:
        self.is_idle = True
        self.budget.notify_changed()


class Scenario:
    def __init__(self, policy: HostOptions) -> None:
        self.budget = MemoryBudget(policy)
        self.log: list[str] = []

    def model(self, model_id: str, memory_bytes: int = 1) -> FakeBudgetedModel:
        return FakeBudgetedModel(model_id, self.budget, self.log, memory_bytes)


async def test_a_load_within_the_budget_is_admitted_at_once() -> None:
    scenario = Scenario(HostOptions(memory_budget=10))
    for name in "abc":
        await scenario.model(name, 3).load()
    assert scenario.log == ["+a", "+b", "+c"]


async def test_without_eviction_a_load_over_the_budget_is_rejected_at_once() -> None:
    scenario = Scenario(HostOptions(memory_budget=10))
    await scenario.model("a", 6).load()
    with pytest.raises(EngineOverloaded) as refused:
        await scenario.model("b", 5).load()
    assert refused.value.details == {"retry_after": 5, "reason": "no_room"}
    await scenario.model("c", 4).load()
    assert scenario.log == ["+a", "+c"]


async def test_a_model_over_the_whole_budget_is_rejected_and_evicts_none() -> None:
    scenario = Scenario(HostOptions(memory_budget=10, evict=True))
    await scenario.model("a", 6).load()
    with pytest.raises(
        InvalidRequest, match="about 11 bytes with these options, but the memory budget of all models is 10"
    ):
        await scenario.model("b", 11).load()
    assert scenario.log == ["+a"]


async def test_only_as_many_idle_models_as_needed_are_evicted_longest_unused_first() -> None:
    scenario = Scenario(HostOptions(memory_budget=10, evict=True))
    a, b, c = (scenario.model(name, 3) for name in "abc")
    for model in (a, b, c):
        await model.load()
    a.used_at = time.monotonic()
    await scenario.model("d", 7).load()
    assert scenario.log == ["+a", "+b", "+c", "-b", "-c", "+d"]


async def test_a_busy_model_is_not_evicted_even_if_it_was_used_longest_ago() -> None:
    scenario = Scenario(HostOptions(max_loaded=2, evict=True))
    await scenario.model("busy").load(idle=False)
    await scenario.model("idle").load()
    await scenario.model("new").load()
    assert scenario.log == ["+busy", "+idle", "-idle", "+new"]


async def test_waiting_loads_are_admitted_in_order_of_arrival() -> None:
    scenario = Scenario(HostOptions(max_loaded=1, evict=True))
    busy = scenario.model("busy")
    await busy.load(idle=False)
    waiting = []
    for number in range(5):
        waiting.append(asyncio.create_task(scenario.model(str(number)).load()))
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    assert scenario.log == ["+busy"]
    busy.become_idle()
    await asyncio.gather(*waiting)
    assert [line for line in scenario.log if line.startswith("+")] == ["+busy", "+0", "+1", "+2", "+3", "+4"]


async def test_a_load_that_times_out_is_rejected_and_the_next_one_is_admitted() -> None:
    scenario = Scenario(HostOptions(memory_budget=10, evict=True, admission_timeout=1.0))
    await scenario.model("busy", 6).load(idle=False)
    large = asyncio.create_task(scenario.model("large", 9).load())
    await asyncio.sleep(0.5)
    small = asyncio.create_task(scenario.model("small", 4).load())
    with pytest.raises(EngineOverloaded):
        await large
    await small
    assert scenario.log == ["+busy", "+small"]


async def test_a_cancelled_load_does_not_block_the_queue() -> None:
    scenario = Scenario(HostOptions(max_loaded=1, evict=True))
    busy = scenario.model("busy")
    await busy.load(idle=False)
    first = asyncio.create_task(scenario.model("first").load())
    await asyncio.sleep(0.01)
    second = asyncio.create_task(scenario.model("second").load())
    await asyncio.sleep(0.01)
    first.cancel()
    busy.become_idle()
    await second
    assert scenario.log == ["+busy", "-busy", "+second"]


async def test_with_autoload_a_waiting_load_drains_the_longest_unused_busy_model() -> None:
    scenario = Scenario(HostOptions(max_loaded=3, evict=True, autoload=True, drain_after=0.1))
    held, old, young = (scenario.model(name) for name in ("held", "old", "young"))
    for model in (held, old, young):
        await model.load(idle=False)
    held.is_reserved = True
    loading = asyncio.create_task(scenario.model("new").load())
    await eventually(lambda: "drained old" in scenario.log)
    assert not loading.done()
    old.gone()
    await loading
    assert scenario.log == ["+held", "+old", "+young", "drained old", "-old", "+new"]


async def test_a_background_load_evicts_no_idle_model() -> None:
    scenario = Scenario(HostOptions(max_loaded=1, evict=True))
    await scenario.model("a").load()
    with pytest.raises(EngineOverloaded):
        await scenario.model("b").load(may_evict=False)
    assert scenario.log == ["+a"]


async def test_a_model_larger_than_estimated_evicts_idle_ones_or_is_rejected() -> None:
    scenario = Scenario(HostOptions(memory_budget=10, evict=True))
    a, b = scenario.model("a", 4), scenario.model("b", 4)
    await a.load()
    await b.load(idle=False)
    b.memory_bytes = 8
    await scenario.budget.update(b)
    assert scenario.log == ["+a", "+b", "-a"]
    c = scenario.model("c", 1)
    await c.load()
    c.memory_bytes = 3
    with pytest.raises(EngineOverloaded):
        await scenario.budget.update(c)
    b.memory_bytes = 11
    with pytest.raises(InvalidRequest):
        await scenario.budget.update(b)


class Machine:
    """A machine whose /proc/meminfo is a file of the test. Each model that is loaded takes `load_bytes` of it."""

    def __init__(self, root: Path, available: int, **options: float | bool) -> None:
        self._file = root / "proc" / "meminfo"
        for folder in (self._file.parent, root / "dev" / "shm"):
            folder.mkdir(parents=True)
        self.root = root
        self.set_available(available)
        timeout = {"admission_timeout": 0.5} | options
        self.scenario = Scenario(HostOptions(system_root=str(root), **timeout))  # type: ignore[arg-type]

    def set_available(self, kilobytes: int) -> None:
        self._file.write_text(f"MemTotal: 100 kB\nMemAvailable: {kilobytes} kB\n")

    def model(self, model_id: str, kilobytes: int) -> FakeBudgetedModel:
        model = self.scenario.model(model_id, 1024 * kilobytes)
        model.load_bytes = 1024 * kilobytes
        return model


async def test_a_load_beyond_the_machines_memory_waits_for_it_and_then_is_rejected_with_the_figures(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, 30)
    with pytest.raises(EngineOverloaded, match=f"takes about {31 * 1024} bytes: {30 * 1024} are available") as refused:
        await machine.model("a", 31).load()
    assert refused.value.details == {"retry_after": 5, "reason": "no_room"}
    waiting = asyncio.create_task(machine.model("b", 31).load())
    await asyncio.sleep(0.1)
    machine.set_available(31)
    await waiting
    assert machine.scenario.log == ["+b"]


async def test_a_model_over_all_memory_of_the_machine_is_rejected_at_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 100, admission_timeout=60.0)
    with pytest.raises(InvalidRequest, match=f"takes about {101 * 1024} bytes .* has {100 * 1024}. Load it with"):
        await machine.model("a", 101).load()


async def test_a_load_that_the_machine_lacks_memory_for_evicts_idle_models_if_that_is_enough(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 50, evict=True)
    await machine.model("idle", 20).load()
    await machine.model("busy", 20).load(idle=False)
    machine.set_available(10)
    with pytest.raises(EngineOverloaded):
        await machine.model("huge", 31).load()  # the busy one may not end
    assert machine.scenario.log == ["+idle", "+busy"]
    loading = asyncio.create_task(machine.model("new", 30).load())
    await eventually(lambda: "-idle" in machine.scenario.log)
    machine.set_available(30)
    await loading
    assert machine.scenario.log == ["+idle", "+busy", "-idle", "+new"]


async def test_what_loads_in_progress_have_still_to_take_is_not_available_to_others(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 50)
    loading = machine.model("loading", 30)
    await machine.scenario.budget.admit(loading, may_evict=True)
    loading.pending_bytes = 20 * 1024
    with pytest.raises(EngineOverloaded):
        await machine.model("new", 31).load()
    await machine.model("small", 30).load()


async def test_another_host_gets_the_memory_that_a_large_load_leaves_once_it_is_loaded(tmp_path: Path) -> None:
    first, second = Machine(tmp_path, 50), Scenario(HostOptions(system_root=str(tmp_path), admission_timeout=0.5))
    large, medium = first.model("large", 30), first.model("medium", 15)
    await first.scenario.budget.admit(large, may_evict=True)
    await first.scenario.budget.admit(medium, may_evict=True)
    theirs, small = second.model("theirs"), second.model("small")
    theirs.load_bytes, small.load_bytes = 13 * 1024, 12 * 1024
    await small.load()
    medium.gone()
    with pytest.raises(EngineOverloaded, match="another model host of this machine is loading a model"):
        await theirs.load()
    large.is_loaded = True
    first.scenario.budget.notify_changed()
    await theirs.load()
    assert second.log == ["+small", "+theirs"]


async def test_unused_models_are_unloaded_after_idle_unload() -> None:
    scenario = Scenario(HostOptions(idle_unload=0.4))
    unused, used, busy = (scenario.model(name) for name in ("unused", "used", "busy"))
    await unused.load()
    await used.load()
    await busy.load(idle=False)
    used.used_at = time.monotonic() + 3600
    ending = asyncio.create_task(scenario.budget.unload_unused())
    await eventually(lambda: "-unused" in scenario.log)
    ending.cancel()
    assert scenario.log[3:] == ["-unused"]


@pytest.mark.parametrize("seed", range(20))
async def test_any_order_of_loads_keeps_the_budget_and_evicts_the_longest_unused_idle_models(seed: int) -> None:
    chance = random.Random(seed)
    scenario = Scenario(HostOptions(memory_budget=10, evict=True))
    models: list[FakeBudgetedModel] = []
    for number in range(60):
        for model in models:  # at most 6 of 10 are taken by busy ones, so that there is always somebody to send away
            busy = sum(one.memory_bytes for one in models if one.is_loaded and not one.is_idle)
            if model.is_loaded and chance.random() < 0.5:
                model.used_at = time.monotonic()
                model.is_idle = busy + model.memory_bytes > 6 or chance.random() < 0.5
        before = {one.model_id: one.used_at for one in models if one.is_idle}
        begin = len(scenario.log)
        model = scenario.model(str(number), chance.randint(1, 4))
        models.append(model)
        await model.load()
        gone = [line[1:] for line in scenario.log[begin:] if line.startswith("-")]
        assert gone == sorted(before, key=before.__getitem__)[: len(gone)]
        assert sum(one.memory_bytes for one in models if one.is_loaded) <= 10
