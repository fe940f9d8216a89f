"""Row B10 with a stopped model process: SIGSTOP, so that it answers nothing."""

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inference.batches.workers import (
    count_leases,
    get_attempts,
    get_results,
    running_worker,
    submit_batch,
    wait_until_ended,
)
from tests.inference.engine.processes import eventually_idle
from tests.inference.engine.tiny_models import causal_config, letter_tokenizer, save_config
from tests.inference.running_server import RunningServer, running_server, wait_until_generating

pytestmark = pytest.mark.no_database

LIMIT_S = 1
TRIES = 3
LONG = {"max_tokens": 1900, "ignore_eos": True}


@pytest.fixture
def real() -> Iterator[RunningServer]:
    """Yield a server with its own model host and two real models."""
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        home = Path(folder)
        tokenizer = letter_tokenizer()
        config = causal_config("llama", len(tokenizer))
        config.max_position_embeddings = 2048
        for name in ("still", "lively"):
            save_config(home / "models" / name, config, tokenizer)
        with running_server(home, home / "run", home / "models", load=["still", "lively"]) as stoa:
            yield stoa


async def stop_at_work(stoa: RunningServer) -> int:
    """Stop the model's process while it generates, and return its pid."""
    await wait_until_generating(stoa, "still")
    pid = await stoa.pid("still")
    os.kill(pid, signal.SIGSTOP)
    await stoa.engine.close()
    return pid


async def wait_until_idle(stoa: RunningServer) -> None:
    await eventually_idle(stoa.engine, "still", seconds=10)
    await stoa.engine.close()


@pytest.mark.timeout(600)
def test_b10_requests_of_a_hung_model_time_out_and_other_models_go_on(
    real: RunningServer,
):
    with running_worker(real):
        for model in ("still", "lively"):
            assert wait_until_ended(real, submit_batch(real, "a lamp", model=model), seconds=200)["completed"] == 1
        stalled = submit_batch(real, *["the quick"] * 32, model="still", timeout=LIMIT_S, **LONG)
        pid = asyncio.run(stop_at_work(real))
        stopped = time.monotonic()
        try:
            other = submit_batch(real, *["a lamp"] * 20, model="lively")
            assert wait_until_ended(real, other)["completed"] == 20
            others_took = time.monotonic() - stopped
            batch = wait_until_ended(real, stalled)
            took = time.monotonic() - stopped
        finally:
            with contextlib.suppress(ProcessLookupError):  # an exception here would hide the failed assertion
                os.kill(pid, signal.SIGCONT)
        asyncio.run(wait_until_idle(real))
        again = wait_until_ended(real, submit_batch(real, "oak", model="still"))

    failed = [result for result in get_results(real, stalled) if result["status"] == "failed"]
    print(f"B10: {len(failed)} ended with TIMEOUT {took:.1f} s after the stop, the others after {others_took:.1f} s")
    assert batch["failed"] == len(failed) > 0
    assert {result["error"]["code"] for result in failed} == {"TIMEOUT"}
    assert {get_attempts(real, stalled)[result["index"]] for result in failed} == {TRIES}
    assert others_took < took < TRIES * (LIMIT_S + 10)
    assert count_leases(real, stalled) == 0
    assert (again["status"], again["completed"]) == ("completed", 1)
