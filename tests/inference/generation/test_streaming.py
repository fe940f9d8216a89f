"""Event streams always close their generation, and are kept alive while they are silent."""

import asyncio
import gc
import itertools

import pytest

from inference.engine import GenerationOutput, GenerationStream, StepOutput
from inference.generation import streaming
from inference.generation.streaming import EventStreamResponse


class Talk:
    """A generation whose outputs the test pushes, and which records whether it was cancelled."""

    def __init__(self) -> None:
        self.abandoned = False
        self.outputs = GenerationStream("r", self._abandon)

    def _abandon(self) -> None:
        self.abandoned = True


def form(output: GenerationOutput) -> list[bytes]:
    return [f"{output.index}\n".encode()]


async def test_s14_a_silent_stream_is_kept_alive(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streaming, "KEEP_ALIVE_SECONDS", 0.01)
    talk = Talk()
    response = EventStreamResponse(talk.outputs, form, start=b"start\n")
    parts = aiter(response)

    assert await anext(parts) == b"start\n"
    assert [await anext(parts) for _ in range(3)] == [b": keep-alive\n\n"] * 3
    talk.outputs.fail("over")
    while (part := await anext(parts)) == b": keep-alive\n\n":
        pass
    assert part == b"0\n"
    assert [rest async for rest in parts] == []


async def test_s14_a_stream_of_held_back_tokens_is_kept_alive(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streaming, "KEEP_ALIVE_SECONDS", 0.05)
    talk = Talk()
    parts = aiter(
        EventStreamResponse(talk.outputs, lambda output: [] if output.finish_reason is None else form(output))
    )

    async def speak() -> None:
        for index in itertools.count():
            talk.outputs.push(StepOutput.of(0, GenerationOutput(request_id="r", index=index, text="")))
            await asyncio.sleep(0.001)

    speaking = asyncio.create_task(speak())
    async with asyncio.timeout(30):
        assert [await anext(parts) for _ in range(3)] == [b": keep-alive\n\n"] * 3
    speaking.cancel()
    talk.outputs.fail("over")
    assert len([part async for part in parts if part != b": keep-alive\n\n"]) == 1


async def test_s2_a_cancelled_reader_closes_the_generation():
    talk = Talk()
    response = EventStreamResponse(talk.outputs, form)

    async def read() -> None:
        async for _ in response:
            pass

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    reading.cancel()
    await asyncio.wait({reading})

    assert talk.abandoned


async def test_s2_a_response_closed_unread_from_another_thread_closes_the_generation():
    talk = Talk()
    response = EventStreamResponse(talk.outputs, form)

    await asyncio.to_thread(response.close)
    await asyncio.sleep(0.01)

    assert talk.abandoned


async def test_s2_garbage_collection_of_a_response_closes_the_generation():
    talk = Talk()
    response = EventStreamResponse(talk.outputs, form)

    del response
    gc.collect()
    await asyncio.sleep(0.01)

    assert talk.abandoned


async def test_a_stream_read_to_its_end_is_not_cancelled():
    talk = Talk()
    response = EventStreamResponse(talk.outputs, form)
    talk.outputs.fail("over")

    assert [part async for part in response] == [b"0\n"]
    response.close()
    await asyncio.sleep(0.01)

    assert not talk.abandoned
