"""The fair semaphore: users take turns."""

import asyncio

import pytest

from inference.engine.ipc.fair_semaphore import FairSemaphore


class Workers:
    """Workers that record their names once they have acquired the semaphore, and release it on request."""

    def __init__(self, semaphore: FairSemaphore) -> None:
        self.semaphore = semaphore
        self.began: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str, batch: bool = False) -> None:
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._work(name, batch))
            await asyncio.sleep(0)

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await self._tasks[name]
            await asyncio.sleep(0)

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._tasks[name]

    async def _work(self, name: str, batch: bool) -> None:
        async with self.semaphore.acquire(user=name[0], batch=batch):
            self.began.append(name)
            await self._ends[name].wait()


async def test_users_take_turns() -> None:
    workers = Workers(FairSemaphore(1))
    await workers.come("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    await workers.end("a1", "a2", "b1", "c1", "a3", "b2", "a4")
    assert workers.began == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_batch_waiters_come_last() -> None:
    workers = Workers(FairSemaphore(1))
    await workers.come("a1", "a2", "a3", batch=True)
    await workers.come("b1", "a4")
    await workers.end("a1", "b1", "a4", "a2", "a3")
    assert workers.began == ["a1", "b1", "a4", "a2", "a3"]


async def test_the_semaphore_limits_concurrency_despite_cancelled_waiters() -> None:
    workers = Workers(FairSemaphore(2))
    await workers.come("a1", "a2", "a3", "b1", "b2")
    assert workers.began == ["a1", "a2"]
    await workers.cancel("a3")
    await workers.cancel("a1")
    await asyncio.sleep(0)
    assert workers.began == ["a1", "a2", "b1"]
    await workers.end("a2", "b1", "b2")
    await workers.come("c1", "c2", "c3")
    assert workers.began == ["a1", "a2", "b1", "b2", "c1", "c2"]
    await workers.end("c1", "c2", "c3")


async def test_a_waiter_cancelled_as_it_acquires_passes_the_semaphore_on() -> None:
    workers = Workers(FairSemaphore(1))
    await workers.come("a1", "b1", "c1")
    workers._ends["a1"].set()
    await asyncio.sleep(0)  # a1 has gone, and its place is b1's, who does not know it yet
    await workers.cancel("b1")
    await asyncio.sleep(0)
    assert workers.began == ["a1", "c1"]
    await workers.end("c1")


async def test_one_user_leaves_room_for_another() -> None:
    workers = Workers(FairSemaphore(4, per_user=3))
    await workers.come("a1", "a2", "a3", "a4", "a5", "b1")
    assert workers.began == ["a1", "a2", "a3", "b1"]
    await workers.come("b2", "c1")
    await workers.end("b1")
    assert workers.began[4:] == ["b2"]  # a has three
    await workers.end("a1")
    assert workers.began[5:] == ["a4"]
    await workers.end("b2")
    assert workers.began[6:] == ["c1"]
    await workers.cancel("a5")
    await workers.end("a2", "a3", "a4", "c1")
    await workers.come("d1", "d2", "d3", "d4")
    assert workers.began[7:] == ["d1", "d2", "d3"]
    await workers.end("d1", "d2", "d3", "d4")


async def test_the_estimated_wait_follows_recent_durations() -> None:
    semaphore = FairSemaphore(2)
    assert semaphore.estimate_wait(100) == 1
    async with semaphore.acquire(user="a", batch=False):
        await asyncio.sleep(0.2)
    assert 10 <= semaphore.estimate_wait(100) <= 30
    assert semaphore.estimate_wait(100_000) == 120
