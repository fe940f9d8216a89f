"""The whole engine: a real model in a real process, through the clients."""

import asyncio
import os
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.engine import (
    ContextLengthExceeded,
    EmbeddingRequest,
    FinishReason,
    GenerationRequest,
    InvalidRequest,
    LoadOptions,
    Message,
    ModelLoadFailed,
    SamplingParams,
    TokenizationRequest,
)
from inference.engine.host.model_process import NICENESS
from tests.inference.engine.processes import (
    RunningHost,
    eventually_idle,
    process_exists,
    read,
    running_host,
    start_real_host,
)
from tests.inference.engine.tiny_models import CONTEXT, END


@pytest.fixture(scope="module")
def host() -> Iterator[RunningHost]:
    with running_host(start_real_host) as host:
        yield host


@pytest.fixture
def folder(causal_folders: dict[str, Path]) -> Path:
    return causal_folders["llama"]


def greedy(prompt: str, max_tokens: int) -> GenerationRequest:
    sampling = SamplingParams(max_tokens=max_tokens, temperature=0)
    return GenerationRequest(request_id="one", prompt=prompt, sampling=sampling)


async def write(host: RunningHost, prompt: str, max_tokens: int = 24) -> str:
    async with await host.engine.generate("llama", greedy(prompt, max_tokens)) as stream:
        outputs = await read(stream)
    assert outputs[-1].finish_reason in (FinishReason.LENGTH, FinishReason.STOP)
    return "".join(output.text for output in outputs)


async def test_s1_sixteen_concurrent_streams_equal_their_texts_alone(host: RunningHost, folder: Path) -> None:
    report = await host.commands.load("llama", folder, LoadOptions(batch_size=16))
    assert (report.context_size, report.device, report.gpu_layers) == (CONTEXT, "cpu", 0)
    prompts = [f"{number} green bottles" * (1 + number % 3) for number in range(16)]
    alone = [await write(host, prompt) for prompt in prompts]
    assert len(set(alone)) > 8
    assert await asyncio.gather(*(write(host, prompt) for prompt in prompts)) == alone
    await host.engine.close()


async def test_unsupported_requests_raise_typed_errors_across_the_socket(host: RunningHost, folder: Path) -> None:
    await host.commands.load("llama", folder, LoadOptions(batch_size=16))
    with pytest.raises(ContextLengthExceeded) as refused:
        await host.engine.generate("llama", greedy("x" * 100, 50))
    assert refused.value.details == {"context_size": CONTEXT, "prompt_tokens": 100, "max_tokens": 50}
    with pytest.raises(InvalidRequest, match="no system messages"):
        await host.engine.generate("llama", GenerationRequest(request_id="a", messages=(Message("system", "Hello"),)))
    with pytest.raises(InvalidRequest, match="must be 1 or more"):
        await host.commands.load("other", folder, LoadOptions(batch_size=0))
    assert END not in (await host.engine.tokenize("llama", TokenizationRequest(text="<|end|>"))).ids
    await host.engine.close()


async def test_a_web_process_goes_before_a_model_that_computes(host: RunningHost, folder: Path) -> None:
    await host.commands.load("llama", folder, LoadOptions(batch_size=16))
    niceness = os.getpriority(os.PRIO_PROCESS, await host.pid("llama"))
    assert niceness == min(19, os.getpriority(os.PRIO_PROCESS, host.process.pid) + NICENESS)


async def test_m8_a_prompt_far_too_long_is_not_sent_to_the_model_process(host: RunningHost, folder: Path) -> None:
    await host.commands.load("llama", folder, LoadOptions(batch_size=16))
    await write(host, "so that there is a connection")
    asked = (
        {"prompt": "x" * 9 * 2**20},
        {"messages": (Message("user", "x" * 9 * 2**20),)},
        {"prompt_ids": (5,) * 200_000},
    )
    pid = await host.pid("llama")
    os.kill(pid, signal.SIGSTOP)
    try:
        for form in asked:
            with pytest.raises(ContextLengthExceeded) as refused:
                await host.engine.generate("llama", GenerationRequest(request_id="one", **form))
            assert refused.value.details["context_size"] == CONTEXT
            assert refused.value.details["prompt_tokens"] > CONTEXT
    finally:
        os.kill(pid, signal.SIGCONT)
    await host.engine.close()


async def test_m6_a_killed_process_is_back_within_ten_seconds_with_the_same_text(
    host: RunningHost, folder: Path
) -> None:
    await host.commands.load("llama", folder, LoadOptions(batch_size=16))
    before = await write(host, "One")
    stream = await host.engine.generate("llama", greedy("Two", 100))
    await anext(stream)
    os.kill(await host.pid("llama"), signal.SIGKILL)
    async with asyncio.timeout(10):
        assert (await read(stream))[-1].finish_reason is FinishReason.ERROR
        assert await write(host, "One") == before
    await host.engine.close()


async def test_s2_an_abandoned_stream_frees_its_slot(host: RunningHost, folder: Path) -> None:
    await host.commands.load("llama", folder, LoadOptions(batch_size=16))
    for _ in range(40):
        stream = await host.engine.generate("llama", greedy("Three", 100))
        await anext(stream)
        await stream.close()
    await eventually_idle(host.engine, "llama")
    await host.engine.close()


async def test_embeddings_of_a_real_model_cross_the_socket(host: RunningHost, encoder_folder: Path) -> None:
    await host.commands.load("encoder", encoder_folder)
    asked = EmbeddingRequest(request_id="e", texts=("a lamp", "a story that goes on", "a lamp"))
    result = await host.engine.embed("encoder", asked)
    lamp, story, lamp_again = (struct.unpack(f"<{result.dimensions}f", vector) for vector in result.vectors)
    assert result.dimensions == 32
    assert lamp == pytest.approx(lamp_again, abs=1e-6)
    assert sum(x * x for x in story) == pytest.approx(1, abs=1e-5)
    assert sum(x * y for x, y in zip(lamp, story, strict=True)) < 0.999
    await host.commands.unload("encoder")
    await host.engine.close()


async def test_a_user_with_one_embedding_does_not_wait_for_a_user_with_many(
    host: RunningHost, encoder_folder: Path
) -> None:
    await host.commands.load("encoder", encoder_folder)
    ended: list[str] = []

    async def embed(user: str, *, batch: bool = False) -> None:
        texts = ("a story that goes on",) * 64
        asked = EmbeddingRequest(request_id="e", texts=texts, user=user, batch=batch)
        await host.engine.embed("encoder", asked)
        ended.append(user)

    crowd = [asyncio.create_task(embed("batch", batch=True)) for _ in range(40)]
    crowd += [asyncio.create_task(embed("much")) for _ in range(40)]
    await asyncio.sleep(0)
    await embed("little")
    assert len(ended) < 40, ended
    await asyncio.gather(*crowd)
    assert ended.index("much") < 40
    assert ended[-1] == "batch"
    await host.commands.unload("encoder")
    await host.engine.close()


async def test_unload_ends_the_process(host: RunningHost, folder: Path) -> None:
    for _ in range(5):
        await host.commands.load("llama", folder)
        pid = await host.pid("llama")
        await host.commands.unload("llama")
        assert not process_exists(pid)
    assert await host.commands.models() == []


async def test_a_folder_without_a_model_fails_to_load_with_the_reason(host: RunningHost, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=r"config\.json"):
        await host.commands.load("empty", tmp_path)
