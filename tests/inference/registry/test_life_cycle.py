"""Models come and go under load: the real engine, real processes, a whole server."""

import asyncio
import json
import os
import random
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest

from inference.engine import LoadOptions, ModelState
from inference.engine.estimate import estimate_memory
from tests.inference.engine.processes import eventually_in_state
from tests.inference.engine.tiny_models import causal_config, letter_tokenizer, save_config
from tests.inference.served import ServedStoa, served_stoa

NAMES = ("first", "second", "third")
PROMPTS = ("a lamp", "the quick brown fox", "oak", "seven green bottles")
KILLS = 10
CYCLES = 20
pytestmark = pytest.mark.timeout(900)  # loads are work, and the machine may have other work to do


@contextmanager
def three_models(load: list[str], budget: float = 10, **settings: str) -> Iterator[ServedStoa]:
    """A server over three models of one size, with room for `budget` of them."""
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        tokenizer = letter_tokenizer()
        for number, name in enumerate(NAMES):
            config = causal_config("llama", len(tokenizer))
            config.intermediate_size = 48 + 16 * number  # so that they write different texts
            folder = save_config(Path(home) / "models" / name, config, tokenizer)
        settings["STOA_MEMORY_BUDGET"] = str(round(estimate_memory(folder, LoadOptions()) * budget))
        run_dir = Path(home) / "run"
        with served_stoa(Path(home), run_dir, Path(home) / "models", load=load, extra=settings) as stoa:
            yield stoa


async def write(client: httpx2.AsyncClient, model: str, prompt: str, max_tokens: int = 40) -> str:
    body = {"model": model, "prompt": prompt, "temperature": 0, "repeat_penalty": 1.0, "max_tokens": max_tokens}
    answer = await client.post("/inference", json=body | {"ignore_eos": True}, timeout=100)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


async def test_thirty_clients_ask_three_models_where_two_have_room_and_each_is_answered_right():
    chance = random.Random(7)
    with three_models([], budget=2.5, STOA_EVICT="true", STOA_AUTOLOAD="true") as stoa:
        async with stoa.client() as client:
            right = {(name, prompt): await write(client, name, prompt) for name in NAMES for prompt in PROMPTS}
            assert len(set(right.values())) == len(right)

            async def ask() -> None:
                for _ in range(4):
                    name, prompt = chance.choice(NAMES), chance.choice(PROMPTS)
                    await asyncio.sleep(chance.random())
                    assert await write(client, name, prompt) == right[name, prompt]

            await asyncio.gather(*(ask() for _ in range(30)))
        check_evictions(stoa.log.read_text())
        assert "model_crashed" not in stoa.log.read_text()


def check_evictions(log: str) -> None:
    """Each victim was idle, and none of those that were kept had been idle for longer."""
    evictions = re.findall(r'model_evicted model=(\w+) for=(\w+) unused_s=([\d.]+) kept=([^\s"]*)', log)
    assert len(evictions) >= 3
    for victim, newcomer, unused, kept in evictions:
        assert victim != newcomer
        others = [one.split(":")[1] for one in kept.split(",") if one]
        assert all(other == "busy" or float(other) <= float(unused) for other in others)


def family_bytes(process: psutil.Process) -> int:
    """What a process and all below it have in memory, shared pages counted once for each."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        total += one.memory_info().rss
    return total


async def test_m5_memory_is_back_after_twenty_cycles_of_loading_and_unloading():
    with three_models(["second"]) as stoa:
        server = psutil.Process(await server_pid(stoa))

        async def cycle(client: httpx2.AsyncClient) -> None:
            assert (await client.post("/models/first/load", timeout=100)).status_code == 200
            assert len(await write(client, "first", "a lamp")) == 40
            assert (await client.post("/models/first/unload", timeout=100)).status_code == 200

        async with stoa.client() as client:
            for _ in range(5):  # what is imported or cached once is no leak
                await cycle(client)
            await asyncio.sleep(2)  # the last model process may still be going
            before, children = family_bytes(server), len(server.children(recursive=True))
            for _ in range(CYCLES):
                await cycle(client)
        deadline = time.monotonic() + 30  # what ended is reaped, and what was freed given back, a moment later
        while len(server.children(recursive=True)) > children or family_bytes(server) > before * 1.05:
            left = (len(server.children(recursive=True)), children, family_bytes(server) / before)
            assert time.monotonic() < deadline, left
            await asyncio.sleep(0.2)


async def server_pid(stoa: ServedStoa) -> int:
    """Of the web server, which started the host that started the models."""
    host = psutil.Process(await stoa.pid("second")).parent()
    while host is not None and "manage_inference.py" not in host.cmdline():
        host = host.parent()
    assert host is not None
    return host.pid


async def test_m6_a_model_killed_ten_times_under_load_hangs_nobody_and_touches_no_other():
    with three_models(["first", "second"]) as stoa:
        async with stoa.client() as client:
            right = {name: await write(client, name, "a lamp", 100) for name in ("first", "second")}
            pid_of_second, killing = await stoa.pid("second"), True
            served = {"first": 0, "second": 0, "refused": 0}

            async def ask_first() -> None:
                while killing:
                    text = await stream(client, "first")
                    served["refused" if text is None else "first"] += 1
                    assert text in (None, right["first"])
                    if text is None:
                        await asyncio.sleep(0.05)

            async def ask_second() -> None:
                while killing:
                    assert await write(client, "second", "a lamp", 100) == right["second"]
                    served["second"] += 1

            clients = [asyncio.create_task(ask()) for ask in [ask_first] * 6 + [ask_second] * 2]
            killed: set[int] = set()
            for _ in range(KILLS):
                await served_again(served)
                pid = await pid_of_another(stoa, killed)
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            await served_again(served)
            killing = False
            await asyncio.wait_for(asyncio.gather(*clients), 200)
        assert await stoa.pid("second") == pid_of_second
        assert served["refused"] > 0
        assert served["second"] > KILLS
        status = await eventually_in_state(stoa.host, "first", ModelState.LOADED)
        assert status.error is None


async def pid_of_another(stoa: ServedStoa, killed: set[int]) -> int:
    """Of the first model's process, once it is none of these."""
    until = time.monotonic() + 200
    while (status := await eventually_in_state(stoa.host, "first", ModelState.LOADED)).pid in {None, *killed}:
        assert time.monotonic() < until, status
        await asyncio.sleep(0.01)
    assert status.pid is not None
    return status.pid


async def served_again(served: dict[str, int]) -> None:
    before, until = served["first"], time.monotonic() + 200
    while served["first"] == before:
        assert time.monotonic() < until, served
        await asyncio.sleep(0.01)


async def stream(client: httpx2.AsyncClient, model: str) -> str | None:
    """The whole text, or None when the model's end broke it off: as a status before it began, as an event later."""
    body = {"model": model, "prompt": "a lamp", "temperature": 0, "repeat_penalty": 1.0, "max_tokens": 100}
    async with client.stream("POST", "/inference/stream", json=body | {"ignore_eos": True}, timeout=100) as answer:
        if answer.status_code != 200:
            error = json.loads(await answer.aread())["error"]
            assert (answer.status_code, error["code"]) in ((503, "INFERENCE_FAILED"), (503, "MODEL_NOT_LOADED"))
            return None
        events = [json.loads(line[6:]) async for line in answer.aiter_lines() if line.startswith("data: ")]
    if "error" in events[-1]:
        assert events[-1]["error"]["code"] == "INFERENCE_FAILED"
        return None
    assert events[-1]["done"] is True
    return "".join(event["token"] for event in events[:-1])
