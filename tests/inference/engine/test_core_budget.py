"""Busy models share the cores: those of a host's processes, the steps of an engine, and a compiled step."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from inference.engine import GenerationStream
from inference.engine.core_budget import MAX_PROCESSES, CoreBudget, CoreShare, fair_threads, join_budget, take_cores
from inference.engine.models.interface import TokenSpan
from tests.inference.engine.engine_runner import ScriptedDecoder, ask, running_engine
from tests.inference.engine.processes import request, running_host, start_host
from tests.inference.engine.tiny_models import byte_tokenizer

BYTES = byte_tokenizer()
EIGHT_CORES = "from inference.engine.host import launcher\nlauncher.physical_cores = lambda: 8\n"
LONG = 100_000  # tokens, which no test reads to the end


@pytest.fixture
def shares() -> Iterator[tuple[CoreShare, CoreShare]]:
    """Return this process's share of four cores, and another one's."""
    budget = CoreBudget(get_context("forkserver"), 4)
    own, other = budget.open_share(), budget.open_share()
    assert own is not None
    assert other is not None
    threads = torch.get_num_threads()
    join_budget(own)
    yield own, other
    join_budget(None)
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("demands", "cores", "shares"),
    [
        ((4,), 4, (4,)),
        ((2, 2), 4, (2, 2)),
        ((4, 4), 4, (2, 2)),
        ((4, 4, 4), 4, (1, 1, 1)),
        ((1, 16, 16), 16, (1, 7, 7)),
        ((1, 2, 16), 16, (1, 2, 13)),
        ((2, 2, 2), 2, (1, 1, 1)),
        ((1, 1, 1, 8), 2, (1, 1, 1, 1)),
        ((16,), 8, (8,)),
    ],
)
def test_busy_processes_get_equal_shares_and_what_others_do_not_need(
    demands: tuple[int, ...], cores: int, shares: tuple[int, ...]
) -> None:
    assert tuple(fair_threads(threads, demands, cores) for threads in demands) == shares


def test_a_process_without_a_budget_has_all_its_threads() -> None:
    assert take_cores(16) == 16


def test_a_share_counts_until_it_is_released_or_closed() -> None:
    budget = CoreBudget(get_context("forkserver"), 8)
    first, second = budget.open_share(), budget.open_share()
    assert first is not None
    assert second is not None
    assert (first.take(8), second.take(8), first.take(8)) == (8, 4, 4)
    second.release()
    assert first.take(8) == 8
    second.take(8)
    budget.close_share(second)
    assert first.take(8) == 8


def test_shares_of_ended_processes_are_given_to_new_ones() -> None:
    budget = CoreBudget(get_context("forkserver"), 8)
    shares = [budget.open_share() for _ in range(MAX_PROCESSES)]
    assert None not in shares
    assert budget.open_share() is None
    budget.close_share(None)
    budget.close_share(shares[7])
    assert budget.open_share() == shares[7]


def start_on_eight_cores(run_dir: Path) -> subprocess.Popen[str]:
    return start_host(run_dir, before=EIGHT_CORES)


async def read_until(stream: GenerationStream, word: str) -> None:
    async with asyncio.timeout(20):
        async for output in stream:
            if output.text == word:
                return
    pytest.fail(f"never {word}")


async def test_two_models_share_the_cores_while_both_are_busy() -> None:
    with running_host(start_on_eight_cores) as host:
        for name in ("a", "b"):
            await host.commands.load(name, host.folder(name))
        long = await host.engine.generate("a", request("cores", LONG, "long"))
        await read_until(long, "8 ")
        short = await host.engine.generate("b", request("cores", 50, "short"))
        assert {output.text async for output in short} == {"4 "}
        await read_until(long, "4 ")
        await read_until(long, "8 ")
        await host.engine.close()


async def test_a_killed_model_process_frees_its_share() -> None:
    with running_host(start_on_eight_cores) as host:
        for name in ("a", "b"):
            await host.commands.load(name, host.folder(name))
        long = await host.engine.generate("a", request("cores", LONG, "long"))
        other = await host.engine.generate("b", request("cores", LONG, "other"))
        await read_until(other, "4 ")
        await read_until(long, "4 ")
        os.kill(await host.pid("b"), signal.SIGKILL)
        await read_until(long, "8 ")
        await host.engine.close()


class WatchedDecoder(ScriptedDecoder):
    """A decoder that notes the number of torch's threads in each step."""

    def __init__(self, threads: int) -> None:
        super().__init__(BYTES.encode("a brass lamp"), len(BYTES))
        self.threads = threads
        self.seen: list[int] = []

    def run(self, spans: list[TokenSpan]) -> torch.Tensor:  # type: ignore[override]
        self.seen.append(torch.get_num_threads())
        return super().run(spans)


def test_each_step_has_as_many_threads_as_the_models_share(shares: tuple[CoreShare, CoreShare]) -> None:
    _, other = shares
    decoder = WatchedDecoder(threads=4)
    with running_engine(decoder, BYTES) as (engine, collector):
        collector.at_token["one", 1] = lambda: other.take(4)
        collector.at_token["one", 3] = other.release
        collector.at_token["one", 4] = lambda: engine.cancel("one")
        engine.submit(ask("one", "hello"))
        collector.outputs("one")
        assert decoder.seen == [4, 4, 2, 2, 4]
        until = time.monotonic() + 20
        while other.take(4) != 4:  # the engine waits for work
            assert time.monotonic() < until
            time.sleep(0.001)


def test_a_model_on_a_gpu_does_not_count(shares: tuple[CoreShare, CoreShare]) -> None:
    _, other = shares
    taken: list[int] = []
    with running_engine(WatchedDecoder(threads=0), BYTES) as (engine, collector):
        collector.at_token["one", 1] = lambda: taken.append(other.take(4))
        collector.at_token["one", 2] = lambda: engine.cancel("one")
        engine.submit(ask("one", "hello"))
        collector.outputs("one")
    assert taken == [4]
