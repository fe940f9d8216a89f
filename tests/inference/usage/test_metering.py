"""The metering of requests, with a real Redis that is down for a while."""

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
from inference.usage import metering, reservations
from inference.usage.ledger import LedgerAmount, LedgerKey
from inference.usage.metering import UsageMeter
from inference.usage.reservations import BudgetExceeded, minute_entry, slot_entry
from inference.usage.scopes import LimitScope
from shared.api.limits.counters import PEEK, RedisCounters, local_counters
from shared.serving.processes.local_redis import LocalRedis
from tests.inference.usage.recording_buffer import RecordingBuffer

SCOPES = (LimitScope("key:1", 0, 100, 2),)
LEDGER_KEY = LedgerKey.at(datetime(2026, 3, 1, tzinfo=UTC), user_id=1, api_key_id=1, model_id="m")


@pytest.fixture
def store(settings: Settings) -> Iterator[LocalRedis]:
    """A Redis server for this test alone."""
    with TemporaryDirectory(prefix="stoa") as folder, LocalRedis(Path(folder)) as store:
        settings.REDIS_URL = store.url
        yield store


@pytest.fixture
def meter() -> UsageMeter:
    return UsageMeter(RecordingBuffer())


async def counts(meter: UsageMeter) -> tuple[int, int]:
    [state] = await meter.state(SCOPES)
    return state.tokens, state.running


async def wait_until(read: Callable[[], object], expected: object) -> None:
    deadline = time.monotonic() + 20
    while read() != expected:
        assert time.monotonic() < deadline, read()
        await asyncio.sleep(0.05)


def redis_counts(store: LocalRedis) -> tuple[int, int]:
    entries = [minute_entry(SCOPES[0], 0), slot_entry(SCOPES[0])]
    tokens, running = RedisCounters(store.url).add(PEEK, entries)
    return tokens.used, running.used


async def test_an_admission_ends_with_its_last_stream(store: LocalRedis, meter: UsageMeter) -> None:
    streams = [GenerationStream(str(number), lambda: None) for number in range(2)]
    with await meter.admit(scopes=SCOPES, tokens=60, ledger_key=LEDGER_KEY) as admission:
        admission.follow(*streams)
    assert await counts(meter) == (60, 1)
    streams[0].push(StepOutput(0, 0, "a", usage=Usage(5, 1, 4)))
    assert await counts(meter) == (60, 1)
    streams[1].prompt_tokens = 7
    await streams[1].close()
    assert await counts(meter) == (13, 0)
    assert isinstance(meter.buffer, RecordingBuffer)
    assert meter.buffer.added == [LedgerAmount(1, Usage(12, 1, 4))]


async def test_an_admission_without_streams_is_released(store: LocalRedis, meter: UsageMeter) -> None:
    with await meter.admit(scopes=SCOPES, tokens=60, ledger_key=LEDGER_KEY):
        pass
    assert await counts(meter) == (0, 0)
    with await meter.admit(scopes=SCOPES, tokens=60, ledger_key=LEDGER_KEY) as admission:
        admission.finish(Usage(3, 0))
    assert await counts(meter) == (3, 0)
    with pytest.raises(BudgetExceeded):
        await meter.admit(scopes=SCOPES, tokens=98, ledger_key=LEDGER_KEY)


async def test_a_cancelled_admission_is_released(store: LocalRedis, meter: UsageMeter) -> None:
    for _ in range(20):
        admitting = asyncio.create_task(meter.admit(scopes=SCOPES, tokens=1, ledger_key=LEDGER_KEY))
        await asyncio.sleep(0)
        admitting.cancel()
        await asyncio.wait({admitting})
    await wait_until(lambda: redis_counts(store), (0, 0))


async def test_d6_requests_that_end_while_redis_is_paused_are_settled_afterwards(
    store: LocalRedis, meter: UsageMeter
) -> None:
    admission = await meter.admit(scopes=SCOPES, tokens=60, ledger_key=LEDGER_KEY)
    with redis.Redis.from_url(store.url) as client:
        client.execute_command("CLIENT", "PAUSE", "2000", "ALL")
    began = time.monotonic()
    admission.finish(Usage(5, 5))
    with await meter.admit(scopes=(LimitScope("key:paused", 0, 10, 1),), tokens=9, ledger_key=LEDGER_KEY) as other:
        assert other.reservation.store is local_counters
    assert time.monotonic() - began < 20  # nothing waited for the end of the pause
    await wait_until(lambda: redis_counts(store) if time.monotonic() > began + 3 else None, (10, 0))


async def test_the_lease_of_a_running_request_is_renewed(
    store: LocalRedis, meter: UsageMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metering, "RENEW_INTERVAL_SECONDS", 0.2)
    monkeypatch.setattr(metering, "SETTLE_INTERVAL_SECONDS", 0.1)
    monkeypatch.setattr(reservations, "LEASE_SECONDS", 3.0)
    admission = await meter.admit(scopes=SCOPES, tokens=60, ledger_key=LEDGER_KEY)
    await asyncio.sleep(5)
    assert await counts(meter) == (60, 1)
    admission.release()
    assert await counts(meter) == (0, 0)
