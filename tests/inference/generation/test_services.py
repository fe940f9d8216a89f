"""Requests of several prompts: how they are submitted to a model with a queue, and to a pool."""

import asyncio

import pytest

from inference.engine import EngineOverloaded, GenerationRequest, GenerationStream
from inference.generation import services

pytestmark = pytest.mark.no_database


class QueueingEngine:
    """Engine whose queue has some places, and that notes whose requests are accepted, closed and how many at once."""

    def __init__(self, places: int) -> None:
        self.free = places
        self.accepted: list[str] = []
        self.closed: list[str] = []
        self.refused = self.submitting = self.most_submitting = 0

    async def generate(self, model_id: str, request: GenerationRequest) -> GenerationStream:
        self.submitting += 1
        self.most_submitting = max(self.most_submitting, self.submitting)
        await asyncio.sleep(0.001)
        self.submitting -= 1
        if self.free < max(request.places, 1):
            self.refused += 1
            raise EngineOverloaded("The queue is full.", retry_after=1, reason="queue_full")
        self.free -= 1
        self.accepted.append(request.prompt or "")
        return GenerationStream(request.request_id, cancel=lambda: self.closed.append(request.prompt or ""))


def prompts(name: str, count: int) -> list[GenerationRequest]:
    return [GenerationRequest(request_id=f"{name}{place}", prompt=f"{name}{place}") for place in range(count)]


@pytest.fixture
def is_pool(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    found = [False]

    async def find_pool(model_id: str) -> object:
        return object() if found[0] else None

    monkeypatch.setattr(services, "find_pool", find_pool)
    return found


async def submit(name: str, count: int) -> int:
    """Submit prompts, and return the number of their streams: 0 if they are refused."""
    try:
        return len(await services._submit_all(None, "talker", prompts(name, count)))
    except EngineOverloaded as error:
        return 0 if error.message == "The queue is full." else -1  # no prompt is to blame


@pytest.mark.usefixtures("is_pool")
async def test_requests_of_many_prompts_are_accepted_whole_or_refused_at_their_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sixteen at once took places and gave them back, and none was accepted."""
    engine = QueueingEngine(places=200)
    monkeypatch.setattr(services, "model_engine", engine)
    outcomes = await asyncio.gather(*(submit(f"{number} ", 64) for number in range(16)))
    assert sorted(outcomes) == [0] * 13 + [64] * 3
    assert (engine.refused, engine.closed) == (13, [])
    assert engine.most_submitting == 63


@pytest.mark.usefixtures("is_pool")
async def test_the_accepted_prompts_of_a_refused_request_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = QueueingEngine(places=3)
    monkeypatch.setattr(services, "model_engine", engine)
    asked = asyncio.create_task(submit("one ", 3))
    while not engine.accepted:  # noqa: ASYNC110  another's request comes in between
        await asyncio.sleep(0)
    engine.free -= 1
    assert await asked == 0
    assert sorted(engine.closed) == sorted(engine.accepted)
    assert len(engine.closed) == 2


async def test_all_prompts_for_a_pool_are_submitted_at_once(
    monkeypatch: pytest.MonkeyPatch, is_pool: list[bool]
) -> None:
    """Its members have queues of their own, and may answer with their first token only."""
    is_pool[0] = True
    engine = QueueingEngine(places=200)
    monkeypatch.setattr(services, "model_engine", engine)
    assert await submit("one ", 64) == 64
    assert engine.most_submitting == 64
