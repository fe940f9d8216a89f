"""Loading, eviction and crashes of models under load, with a real server and real model processes."""

import asyncio
import json
import os
import random
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest
from safetensors.torch import load_file

from inference.engine import LoadOptions, ModelState
from inference.engine.host.memory_estimate import estimate_memory
from tests.inference.engine.adapters import save_adapter
from tests.inference.engine.processes import eventually_in_state
from tests.inference.engine.tiny_models import causal_config, letter_tokenizer, save_config
from tests.inference.running_server import RunningServer, running_server

NAMES = ("first", "second", "third")
PROMPTS = ("a lamp", "the quick brown fox", "oak", "seven green bottles")
KILLS = 10
CYCLES = 20
pytestmark = [pytest.mark.timeout(900), pytest.mark.no_database]


@contextmanager
def three_models(load: list[str], budget: float = 10, **settings: str) -> Iterator[RunningServer]:
    """Run a server with three models of one size, and memory for `budget` of them."""
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        tokenizer = letter_tokenizer()
        for number, name in enumerate(NAMES):
            config = causal_config("llama", len(tokenizer))
            config.intermediate_size = 48 + 16 * number  # so that their texts differ
            folder = save_config(Path(home) / "models" / name, config, tokenizer)
        settings["STOA_MEMORY_BUDGET"] = str(round(estimate_memory(folder, LoadOptions()).total_bytes * budget))
        run_dir = Path(home) / "run"
        with running_server(Path(home), run_dir, Path(home) / "models", load=load, extra=settings) as stoa:
            yield stoa


async def write(client: httpx2.AsyncClient, model: str, prompt: str, max_tokens: int = 40) -> str:
    answer = await client.post("/inference", json=greedy(model, prompt, max_tokens), timeout=100)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


def greedy(model: str, prompt: str, max_tokens: int = 40) -> dict[str, object]:
    body = {"model": model, "prompt": prompt, "temperature": 0, "repeat_penalty": 1.0, "max_tokens": max_tokens}
    return body | {"ignore_eos": True}


async def test_thirty_clients_of_three_models_in_memory_for_two_get_correct_answers():
    chance = random.Random(7)
    with three_models([], budget=2.5, STOA_EVICT="true", STOA_AUTOLOAD="true") as stoa:
        async with stoa.client() as client:
            expected = {(name, prompt): await write(client, name, prompt) for name in NAMES for prompt in PROMPTS}
            assert len(set(expected.values())) == len(expected)

            async def ask() -> None:
                for _ in range(4):
                    name, prompt = chance.choice(NAMES), chance.choice(PROMPTS)
                    await asyncio.sleep(chance.random())
                    assert await write(client, name, prompt) == expected[name, prompt]

            await asyncio.gather(*(ask() for _ in range(30)))
        check_evictions(stoa.log.read_text())
        assert "model_crashed" not in stoa.log.read_text()


def check_evictions(log: str) -> None:
    """Assert that each evicted model was idle, and the longest idle of all."""
    evictions = re.findall(r'model_evicted model=(\w+) for=(\w+) unused_s=([\d.]+) kept=([^\s"]*)', log)
    assert len(evictions) >= 3
    for evicted, newcomer, idle_seconds, kept in evictions:
        assert evicted != newcomer
        others = [one.split(":")[1] for one in kept.split(",") if one]
        assert all(other == "busy" or float(other) <= float(idle_seconds) for other in others)


def process_tree_bytes(process: psutil.Process) -> int:
    """Return the resident memory of a process and its descendants, shared pages counted once per process."""
    return sum(one.memory_info().rss for one in [process, *process.children(recursive=True)])


async def test_m5_twenty_load_and_unload_cycles_leak_no_memory():
    with three_models(["second"]) as stoa:
        server = psutil.Process(await server_pid(stoa))

        async def cycle(client: httpx2.AsyncClient) -> None:
            assert (await client.post("/models/first/load", timeout=100)).status_code == 200
            assert len(await write(client, "first", "a lamp")) == 40
            assert (await client.post("/models/first/unload", timeout=100)).status_code == 200

        async with stoa.client() as client:
            for _ in range(5):  # imports and caches of the first cycles are no leak
                await cycle(client)
            await asyncio.sleep(2)  # the last model process may still be exiting
            before, children = process_tree_bytes(server), len(server.children(recursive=True))
            for _ in range(CYCLES):
                await cycle(client)
        deadline = time.monotonic() + 30  # processes are reaped and memory is returned with a delay
        while len(server.children(recursive=True)) > children or process_tree_bytes(server) > before * 1.05:
            left = (len(server.children(recursive=True)), children, process_tree_bytes(server) / before)
            assert time.monotonic() < deadline, left
            await asyncio.sleep(0.2)


async def server_pid(stoa: RunningServer) -> int:
    """Return the pid of the web server, which started the model host, which started the models."""
    host = psutil.Process(await stoa.pid("second")).parent()
    while host is not None and "manage_inference.py" not in host.cmdline():
        host = host.parent()
    assert host is not None
    return host.pid


async def test_m6_killing_a_model_ten_times_under_load_hangs_no_request_and_affects_no_other_model():
    with three_models(["first", "second"]) as stoa:
        async with stoa.client() as client:
            expected = {name: await write(client, name, "a lamp", 100) for name in ("first", "second")}
            pid_of_second, killing = await stoa.pid("second"), True
            served = {"first": 0, "second": 0, "refused": 0}

            async def ask_first() -> None:
                while killing:
                    text = await stream(client, "first")
                    served["refused" if text is None else "first"] += 1
                    assert text in (None, expected["first"])
                    if text is None:
                        await asyncio.sleep(0.05)

            async def ask_second() -> None:
                while killing:
                    assert await write(client, "second", "a lamp", 100) == expected["second"]
                    served["second"] += 1

            clients = [asyncio.create_task(ask()) for ask in [ask_first] * 6 + [ask_second] * 2]
            killed: set[int] = set()
            for _ in range(KILLS):
                await wait_until_served(served)
                pid = await next_pid(stoa, killed)
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            await wait_until_served(served)
            killing = False
            await asyncio.wait_for(asyncio.gather(*clients), 200)
        assert await stoa.pid("second") == pid_of_second
        assert served["refused"] > 0
        assert served["second"] > KILLS
        status = await eventually_in_state(stoa.host, "first", ModelState.LOADED)
        assert status.error is None


async def test_replicas_answer_alike_while_one_after_the_other_is_killed_under_load():
    with three_models([]) as stoa:
        async with stoa.client() as client:
            loaded = await client.post("/models/first/load", json={"replicas": 2}, timeout=400)
            assert loaded.status_code == 200, loaded.text
            assert loaded.json()["replicas"] == 2
            prompts = [f"a lamp {'abcdefgh'[number]}" for number in range(8)]
            expected = {prompt: await write(client, "first", prompt) for prompt in prompts}
            killing = True
            served = {"first": 0}

            async def ask(prompt: str) -> None:
                while killing:
                    answer = await client.post("/inference", json=greedy("first", prompt), timeout=100)
                    if answer.status_code == 200:
                        assert answer.json()["choices"][0]["text"] == expected[prompt]
                        served["first"] += 1
                    else:  # it had begun at the replica that was killed
                        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "INFERENCE_FAILED")

            clients = [asyncio.create_task(ask(prompt)) for prompt in prompts]
            killed: set[int] = set()
            for number in range(KILLS):
                await wait_until_served(served)
                pid = await replica_pid(stoa, number % 2, killed)
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            await wait_until_served(served)
            killing = False
            await asyncio.wait_for(asyncio.gather(*clients), 200)
        status = await eventually_in_state(stoa.host, "first", ModelState.LOADED)
        assert status.error is None


async def replica_pid(stoa: RunningServer, number: int, killed: set[int]) -> int:
    """Return the pid of a replica of the first model once all are loaded, and it is a new one."""
    until = time.monotonic() + 200
    while True:
        status = await eventually_in_state(stoa.host, "first", ModelState.LOADED)
        pid = status.replicas[number].pid
        if pid and pid not in killed and all(one.state is ModelState.LOADED for one in status.replicas):
            return pid
        assert time.monotonic() < until, status
        await asyncio.sleep(0.05)


async def next_pid(stoa: RunningServer, killed: set[int]) -> int:
    """Return the pid of the first model's process once it is a new one."""
    until = time.monotonic() + 200
    while (status := await eventually_in_state(stoa.host, "first", ModelState.LOADED)).pid in {None, *killed}:
        assert time.monotonic() < until, status
        await asyncio.sleep(0.01)
    assert status.pid is not None
    return status.pid


async def wait_until_served(served: dict[str, int]) -> None:
    before, until = served["first"], time.monotonic() + 200
    while served["first"] == before:
        assert time.monotonic() < until, served
        await asyncio.sleep(0.01)


async def stream(client: httpx2.AsyncClient, model: str) -> str | None:
    """Return the complete text, or None if the model's crash ended it: by a status at first, by an event later."""
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


def test_an_adapter_is_loaded_and_unloaded_as_a_model_of_its_own_beside_its_base(tmp_path: Path):
    base = save_config(tmp_path / "models" / "base", causal_config("llama", 100), letter_tokenizer())
    save_adapter(tmp_path / "models" / "adapter", "owner/base", load_file(base / "model.safetensors"))
    with (
        tempfile.TemporaryDirectory(prefix="stoa") as run_dir,
        running_server(tmp_path, Path(run_dir), tmp_path / "models", load=["base"]) as stoa,
    ):
        listed = {model["id"]: model for model in stoa.get("/models").json()["models"]}
        assert (listed["adapter"]["base"], listed["adapter"]["state"]) == ("base", "unloaded")
        assert listed["base"]["base"] is None

        loaded = stoa.post("/models/adapter/load", {"context_size": 64, "max_sequences": 2})
        assert loaded.status_code == 200, loaded.text
        body = {"prompt": "a warm lamp", "temperature": 0, "max_tokens": 20, "ignore_eos": True}
        texts = [stoa.post("/inference", body | {"model": model}).json() for model in ("base", "adapter")]
        assert len({text["choices"][0]["text"] for text in texts}) == 2

        shutil.rmtree(base)
        assert stoa.post("/models/adapter/unload", {}).status_code == 200
        again = stoa.post("/models/adapter/load", {})
        assert again.status_code == 400
        assert "adapter cannot be loaded. Its base model base is missing" in again.text
