"""From an admission to its end, with a real Redis that is away for a while."""

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import redis
from pytest_django import Settings

from inference.engine import GenerationStream, StepOutput, Usage
from inference.usage import metering
from inference.usage.budgets import RedisBudget
from inference.usage.ledger import Amount, Buffer
from inference.usage.limits import Scope
from inference.usage.local_budget import local_budget
from inference.usage.metering import Bookkeeper, Refused, line_of
from shared.serving.local_redis import LocalRedis

SCOPES = (Scope("key:1", 0, 100, 2),)
LINE = line_of(user_id=1, api_key_id=1, model_id="m", now=datetime(2026, 3, 1, tzinfo=UTC))


class Kept(Buffer):
    """Writes nothing; remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Amount] = []

    def add(self, line: object, amount: Amount) -> None:
        self.told.append(amount)


@pytest.fixture
def store(settings: Settings) -> Iterator[LocalRedis]:
    """A Redis of this test's own."""
    with TemporaryDirectory(prefix="stoa") as folder, LocalRedis(Path(folder)) as store:
        settings.REDIS_URL = store.url
        yield store


@pytest.fixture
def book() -> Bookkeeper:
    return Bookkeeper(Kept())


async def counts(book: Bookkeeper) -> tuple[int, int]:
    [state] = await book.state(SCOPES)
    return state.tokens, state.running


async def eventually(look: Callable[[], object], expected: object) -> None:
    deadline = time.monotonic() + 20
    while look() != expected:
        assert time.monotonic() < deadline, look()
        await asyncio.sleep(0.05)


def in_redis(store: LocalRedis) -> tuple[int, int]:
    [state] = RedisBudget(store.url).state(SCOPES)
    return state.tokens, state.running


async def test_an_admission_ends_with_the_last_of_its_streams(store: LocalRedis, book: Bookkeeper) -> None:
    streams = [GenerationStream(str(number), lambda: None) for number in range(2)]
    with await book.admit(scopes=SCOPES, tokens=60, line=LINE) as admission:
        admission.follow(*streams)
    assert await counts(book) == (60, 1)
    streams[0].push(StepOutput(0, 0, "a", usage=Usage(5, 1, 4)))
    assert await counts(book) == (60, 1)
    streams[1].prompt_tokens = 7
    await streams[1].close()
    assert await counts(book) == (13, 0)
    assert isinstance(book.buffer, Kept)
    assert book.buffer.told == [Amount(1, Usage(12, 1, 4))]


async def test_what_was_let_in_for_nothing_is_given_back(store: LocalRedis, book: Bookkeeper) -> None:
    with await book.admit(scopes=SCOPES, tokens=60, line=LINE):
        pass
    assert await counts(book) == (0, 0)
    with await book.admit(scopes=SCOPES, tokens=60, line=LINE) as admission:
        admission.use(Usage(3, 0))
    assert await counts(book) == (3, 0)
    with pytest.raises(Refused):
        await book.admit(scopes=SCOPES, tokens=98, line=LINE)


async def test_who_leaves_while_they_are_let_in_keeps_no_place(store: LocalRedis, book: Bookkeeper) -> None:
    for _ in range(20):
        asking = asyncio.create_task(book.admit(scopes=SCOPES, tokens=1, line=LINE))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait({asking})
    await eventually(lambda: in_redis(store), (0, 0))


async def test_d6_what_ended_while_redis_was_paused_is_settled_after_it(store: LocalRedis, book: Bookkeeper) -> None:
    admission = await book.admit(scopes=SCOPES, tokens=60, line=LINE)
    with redis.Redis.from_url(store.url) as client:
        client.execute_command("CLIENT", "PAUSE", "2000", "ALL")
    began = time.monotonic()
    admission.use(Usage(5, 5))
    with await book.admit(scopes=(Scope("key:paused", 0, 10, 1),), tokens=9, line=LINE) as other:
        assert other.budget is local_budget
    assert time.monotonic() - began < 20  # it waited for no pause's end, and no request hangs
    await eventually(lambda: in_redis(store) if time.monotonic() > began + 3 else None, (10, 0))


async def test_what_runs_keeps_its_lease(store: LocalRedis, book: Bookkeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering, "RENEW_EVERY_S", 0.2)
    monkeypatch.setattr(metering, "SETTLE_EVERY_S", 0.1)
    short = RedisBudget(store.url, lease_s=3.0)
    monkeypatch.setattr(metering, "redis_budget", lambda url: short)
    admission = await book.admit(scopes=SCOPES, tokens=60, line=LINE)
    await asyncio.sleep(5)
    assert await counts(book) == (60, 1)
    admission.give_back()
    assert await counts(book) == (0, 0)
