"""Row B10 with a real hang: the process of a real model stands still, and says nothing to anybody."""

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inference.batches.workers import all_results, attempts, ended, leases, running_worker, submit
from tests.inference.engine.processes import eventually_idle
from tests.inference.engine.tiny_models import causal_config, letter_tokenizer, save_config
from tests.inference.served import ServedStoa, eventually_running, served_stoa

LIMIT_S = 1
TRIES = 3
LONG = {"max_tokens": 1900, "ignore_eos": True}


@pytest.fixture
def real() -> Iterator[ServedStoa]:
    """A server that starts its own model host, with two models."""
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        home = Path(folder)
        tokenizer = letter_tokenizer()
        config = causal_config("llama", len(tokenizer))
        config.max_position_embeddings = 2048
        for name in ("still", "lively"):
            save_config(home / "models" / name, config, tokenizer)
        with served_stoa(home, home / "run", home / "models", load=["still", "lively"]) as stoa:
            yield stoa


async def stop_at_work(stoa: ServedStoa) -> int:
    """Its process stands still while it generates."""
    await eventually_running(stoa, "still")
    pid = await stoa.pid("still")
    os.kill(pid, signal.SIGSTOP)
    await stoa.engine.close()
    return pid


async def wait_until_idle(stoa: ServedStoa) -> None:
    await eventually_idle(stoa.engine, "still", seconds=10)
    await stoa.engine.close()


@pytest.mark.timeout(600)
def test_b10_a_model_that_stands_still_holds_its_requests_no_longer_than_their_limit_and_others_go_on(
    real: ServedStoa,
):
    with running_worker(real):
        for model in ("still", "lively"):
            assert ended(real, submit(real, "a lamp", model=model), seconds=200)["completed"] == 1
        stalled = submit(real, *["the quick"] * 32, model="still", timeout=LIMIT_S, **LONG)
        pid = asyncio.run(stop_at_work(real))
        stopped = time.monotonic()
        try:
            other = submit(real, *["a lamp"] * 20, model="lively")
            assert ended(real, other)["completed"] == 20
            others_took = time.monotonic() - stopped
            told = ended(real, stalled)
            took = time.monotonic() - stopped
        finally:
            with contextlib.suppress(ProcessLookupError):  # else that would hide what failed
                os.kill(pid, signal.SIGCONT)
        asyncio.run(wait_until_idle(real))
        again = ended(real, submit(real, "oak", model="still"))

    failed = [result for result in all_results(real, stalled) if result["status"] == "failed"]
    print(f"B10: {len(failed)} ended with TIMEOUT {took:.1f} s after the stop, the others after {others_took:.1f} s")
    assert told["failed"] == len(failed) > 0
    assert {result["error"]["code"] for result in failed} == {"TIMEOUT"}
    assert {attempts(real, stalled)[result["index"]] for result in failed} == {TRIES}
    assert others_took < took < TRIES * (LIMIT_S + 10)
    assert leases(real, stalled) == 0
    assert (again["status"], again["completed"]) == ("completed", 1)
