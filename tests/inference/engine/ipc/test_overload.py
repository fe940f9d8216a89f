"""A real model in a real process under overload."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from inference.engine import (
    EngineClient,
    EngineOverloaded,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    LoadOptions,
    SamplingParams,
)
from tests.inference.engine.processes import RunningHost, eventually_idle, read, running_host, start_real_host


@pytest.fixture
async def host(causal_folders: dict[str, Path]) -> AsyncIterator[RunningHost]:
    with running_host(start_real_host) as host:
        await host.commands.load("llama", causal_folders["llama"], LoadOptions(max_sequences=2, max_queue=8))
        yield host
        await host.engine.close()


def asked(user: str, max_tokens: int, **more: object) -> GenerationRequest:
    sampling = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
    return GenerationRequest(request_id="one", prompt="hello", sampling=sampling, user=user, **more)  # type: ignore[arg-type]


async def generate(engine: EngineClient, request: GenerationRequest) -> list[GenerationOutput]:
    return await read(await engine.generate("llama", request))


async def test_r4_of_two_hundred_concurrent_requests_admitted_ones_finish_and_others_get_retry_after(
    host: RunningHost,
) -> None:
    results = await asyncio.gather(
        *(generate(host.engine, asked(str(place), 100)) for place in range(200)), return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, BaseException)]
    admitted = [result for result in results if not isinstance(result, BaseException)]
    assert len(refused) + len(admitted) == 200
    assert len(admitted) >= 10
    assert len(refused) >= 20
    for error in refused:
        assert isinstance(error, EngineOverloaded)
        assert error.details["reason"] == "queue_full"
        assert 1 <= error.details["retry_after"] <= 120
    assert {(len(outputs), outputs[-1].finish_reason) for outputs in admitted} == {(100, FinishReason.LENGTH)}
    await eventually_idle(host.engine, "llama")
    assert len(await generate(host.engine, asked("after", 5))) == 5


async def test_r7_under_load_every_late_request_times_out_and_frees_its_slots(host: RunningHost) -> None:
    late = await asyncio.gather(*(generate(host.engine, asked("a", 120, timeout=0.001, n=2)) for _ in range(4)))
    assert {outputs[-1].error_code for outputs in late} == {"TIMEOUT"}
    stats = await eventually_idle(host.engine, "llama")
    assert stats.cache_tokens == 0
    assert len(await generate(host.engine, asked("after", 5))) == 5
