"""Who gets room, who waits and who leaves, with models that are none."""

import asyncio
import random
import time
from dataclasses import dataclass, field

import pytest

from inference.engine import EngineOverloaded, HostOptions, InvalidRequest
from inference.engine.host.memory_budget import Room
from tests.inference.engine.processes import eventually


@dataclass(eq=False)
class FakeTenant:
    model_id: str
    room: Room
    log: list[str]
    memory_bytes: int = 1
    used_at: float = field(default_factory=time.monotonic)
    is_idle: bool = False
    is_loaded: bool = False
    is_held: bool = False
    is_leaving: bool = False

    async def load(self, *, may_evict: bool = True, idle: bool = True) -> None:
        await self.room.enter(self, may_evict=may_evict)
        self.log.append(f"+{self.model_id}")
        self.is_loaded, self.is_idle, self.used_at = True, idle, time.monotonic()

    async def retire(self) -> bool:
        self.is_idle, self.is_leaving = False, True
        await asyncio.sleep(0)
        self.gone()
        return True

    def close_to_new(self) -> None:
        self.is_leaving = True
        self.log.append(f"closed {self.model_id}")

    def gone(self) -> None:
        self.is_loaded = self.is_idle = self.is_leaving = False
        self.log.append(f"-{self.model_id}")
        self.room.leave(self)

    def become_idle(self) -> None:
        self.is_idle = True
        self.room.look_again()


class House:
    def __init__(self, policy: HostOptions) -> None:
        self.room = Room(policy)
        self.log: list[str] = []

    def tenant(self, model_id: str, memory_bytes: int = 1) -> FakeTenant:
        return FakeTenant(model_id, self.room, self.log, memory_bytes)


async def test_a_load_within_the_budget_waits_for_nothing() -> None:
    house = House(HostOptions(memory_budget=10))
    for name in "abc":
        await house.tenant(name, 3).load()
    assert house.log == ["+a", "+b", "+c"]


async def test_without_eviction_a_load_that_would_break_the_budget_is_refused_at_once() -> None:
    house = House(HostOptions(memory_budget=10))
    await house.tenant("a", 6).load()
    with pytest.raises(EngineOverloaded) as refused:
        await house.tenant("b", 5).load()
    assert refused.value.details == {"retry_after": 5, "reason": "no_room"}
    await house.tenant("c", 4).load()
    assert house.log == ["+a", "+c"]


async def test_what_is_larger_than_the_whole_budget_is_refused_and_nobody_leaves_for_it() -> None:
    house = House(HostOptions(memory_budget=10, evict=True))
    await house.tenant("a", 6).load()
    with pytest.raises(InvalidRequest, match="about 11 bytes so, and all models together may take 10"):
        await house.tenant("b", 11).load()
    assert house.log == ["+a"]


async def test_so_many_idle_models_leave_as_are_needed_and_the_longest_unused_first() -> None:
    house = House(HostOptions(memory_budget=10, evict=True))
    a, b, c = (house.tenant(name, 3) for name in "abc")
    for tenant in (a, b, c):
        await tenant.load()
    a.used_at = time.monotonic()
    await house.tenant("d", 7).load()
    assert house.log == ["+a", "+b", "+c", "-b", "-c", "+d"]


async def test_a_busy_model_never_leaves_though_it_began_longest_ago() -> None:
    house = House(HostOptions(max_loaded=2, evict=True))
    await house.tenant("busy").load(idle=False)
    await house.tenant("idle").load()
    await house.tenant("new").load()
    assert house.log == ["+busy", "+idle", "-idle", "+new"]


async def test_loads_that_wait_are_served_in_the_order_in_which_they_came() -> None:
    house = House(HostOptions(max_loaded=1, evict=True))
    busy = house.tenant("busy")
    await busy.load(idle=False)
    waiting = []
    for number in range(5):
        waiting.append(asyncio.create_task(house.tenant(str(number)).load()))
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    assert house.log == ["+busy"]
    busy.become_idle()
    await asyncio.gather(*waiting)
    assert [line for line in house.log if line.startswith("+")] == ["+busy", "+0", "+1", "+2", "+3", "+4"]


async def test_a_load_that_waits_too_long_is_refused_and_those_behind_it_have_their_turn() -> None:
    house = House(HostOptions(memory_budget=10, evict=True, room_wait=1.0))
    await house.tenant("busy", 6).load(idle=False)
    large = asyncio.create_task(house.tenant("large", 9).load())
    await asyncio.sleep(0.5)
    small = asyncio.create_task(house.tenant("small", 4).load())
    with pytest.raises(EngineOverloaded):
        await large
    await small
    assert house.log == ["+busy", "+small"]


async def test_who_leaves_the_line_holds_nobody_up() -> None:
    house = House(HostOptions(max_loaded=1, evict=True))
    busy = house.tenant("busy")
    await busy.load(idle=False)
    first = asyncio.create_task(house.tenant("first").load())
    await asyncio.sleep(0.01)
    second = asyncio.create_task(house.tenant("second").load())
    await asyncio.sleep(0.01)
    first.cancel()
    busy.become_idle()
    await second
    assert house.log == ["+busy", "-busy", "+second"]


async def test_where_requests_come_back_by_themselves_a_crowded_machine_closes_the_longest_unused_model() -> None:
    house = House(HostOptions(max_loaded=3, evict=True, autoload=True, crowded=0.1))
    held, old, young = (house.tenant(name) for name in ("held", "old", "young"))
    for tenant in (held, old, young):
        await tenant.load(idle=False)
    held.is_held = True
    loading = asyncio.create_task(house.tenant("new").load())
    await eventually(lambda: "closed old" in house.log)
    assert not loading.done()
    old.gone()
    await loading
    assert house.log == ["+held", "+old", "+young", "closed old", "-old", "+new"]


async def test_a_load_that_nobody_waits_for_takes_no_idle_models_place() -> None:
    house = House(HostOptions(max_loaded=1, evict=True))
    await house.tenant("a").load()
    with pytest.raises(EngineOverloaded):
        await house.tenant("b").load(may_evict=False)
    assert house.log == ["+a"]


async def test_a_model_that_turns_out_larger_sends_idle_ones_away_or_is_refused() -> None:
    house = House(HostOptions(memory_budget=10, evict=True))
    a, b = house.tenant("a", 4), house.tenant("b", 4)
    await a.load()
    await b.load(idle=False)
    b.memory_bytes = 8
    await house.room.settle(b)
    assert house.log == ["+a", "+b", "-a"]
    c = house.tenant("c", 1)
    await c.load()
    c.memory_bytes = 3
    with pytest.raises(EngineOverloaded):
        await house.room.settle(c)
    b.memory_bytes = 11
    with pytest.raises(InvalidRequest):
        await house.room.settle(b)


async def test_unused_models_are_ended_after_their_time() -> None:
    house = House(HostOptions(idle_unload=0.4))
    unused, used, busy = (house.tenant(name) for name in ("unused", "used", "busy"))
    await unused.load()
    await used.load()
    await busy.load(idle=False)
    used.used_at = time.monotonic() + 3600
    ending = asyncio.create_task(house.room.end_unused())
    await eventually(lambda: "-unused" in house.log)
    ending.cancel()
    assert house.log[3:] == ["-unused"]


@pytest.mark.parametrize("seed", range(20))
async def test_however_loads_come_the_budget_holds_and_each_victim_was_idle_and_longest_unused(seed: int) -> None:
    chance = random.Random(seed)
    house = House(HostOptions(memory_budget=10, evict=True))
    tenants: list[FakeTenant] = []
    for number in range(60):
        for tenant in tenants:  # at most 6 of 10 are taken by busy ones, so that there is always somebody to send away
            busy = sum(one.memory_bytes for one in tenants if one.is_loaded and not one.is_idle)
            if tenant.is_loaded and chance.random() < 0.5:
                tenant.used_at = time.monotonic()
                tenant.is_idle = busy + tenant.memory_bytes > 6 or chance.random() < 0.5
        before = {one.model_id: one.used_at for one in tenants if one.is_idle}
        begin = len(house.log)
        tenant = house.tenant(str(number), chance.randint(1, 4))
        tenants.append(tenant)
        await tenant.load()
        gone = [line[1:] for line in house.log[begin:] if line.startswith("-")]
        assert gone == sorted(before, key=before.__getitem__)[: len(gone)]
        assert sum(one.memory_bytes for one in tenants if one.is_loaded) <= 10
