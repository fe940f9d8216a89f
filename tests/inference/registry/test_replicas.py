"""Models with replicas behind a real server: requests are spread, and none is lost before its first token."""

import asyncio
import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.inference.engine.processes import request
from tests.inference.running_server import RunningServer, run_commands, running_server_with_fake_models

MODEL, COUNT = "spread", 3
pytestmark = [pytest.mark.timeout(600), pytest.mark.no_database]


@pytest.fixture(scope="module")
def stoa() -> Iterator[RunningServer]:
    with running_server_with_fake_models(MODEL) as stoa:
        yield stoa


@pytest.fixture
def pids(stoa: RunningServer) -> list[int]:
    """The processes of a model that is loaded with replicas of one slot each."""
    loaded = stoa.post(f"/models/{MODEL}/load", {"replicas": COUNT, "max_sequences": 1})
    assert loaded.status_code == 200, loaded.text
    assert loaded.json()["replicas"] == COUNT
    until = time.monotonic() + 60
    while len(found := running_pids(stoa)) < COUNT:
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def running_pids(stoa: RunningServer) -> list[int]:
    statuses = asyncio.run(stoa.host.models())
    [status] = [one for one in statuses if one.model_id == MODEL]
    return [one.pid for one in status.replicas if one.state == "loaded" and one.pid]


def model_info(stoa: RunningServer) -> dict[str, Any]:
    [info] = [one for one in stoa.get("/models").json()["models"] if one["id"] == MODEL]
    return dict(info)


async def ask(client: httpx2.AsyncClient, prompt: str, max_tokens: int = 1) -> tuple[int, str]:
    """Return the status and the text of a completion, or the code of its error."""
    body = {"model": MODEL, "prompt": prompt, "max_tokens": max_tokens}
    answer = await client.post("/v1/completions", json=body)
    if answer.status_code != 200:
        return answer.status_code, answer.json()["error"]["code"]
    return 200, answer.json()["choices"][0]["text"]


async def ask_all(stoa: RunningServer, prompts: list[str]) -> list[tuple[int, str]]:
    async with stoa.client() as client:
        return await asyncio.gather(*(ask(client, prompt) for prompt in prompts))


def pid_in(answer: tuple[int, str]) -> int:
    status, text = answer
    assert status == 200, answer
    return int(text.split()[0])


@pytest.mark.parametrize("count", [0, 65, "two"])
def test_a_number_of_replicas_beyond_the_limit_is_refused(stoa: RunningServer, count: object):
    refused = stoa.post(f"/models/{MODEL}/load", {"replicas": count})
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert "replicas" in message
    if count == 65:
        assert "64" in message


def test_requests_that_begin_alike_go_to_one_replica_and_others_are_spread(stoa: RunningServer, pids: list[int]):
    prompts = [f"where {number}" for number in range(30)]
    first = [pid_in(asyncio.run(ask_all(stoa, [prompt]))[0]) for prompt in prompts]
    again = [pid_in(asyncio.run(ask_all(stoa, [prompt]))[0]) for prompt in prompts]
    assert first == again
    assert set(first) == set(pids)
    assert min(Counter(first).values()) >= 3


def test_each_replica_is_listed_with_its_state(stoa: RunningServer, pids: list[int]):
    info = model_info(stoa)
    assert (info["state"], info["replicas"], info["members"]) == ("loaded", COUNT, None)
    states = [(one["replica"], one["state"], one["error"], one["device"]) for one in info["replica_states"]]
    assert states == [(number, "loaded", None, None) for number in range(COUNT)]
    listed, as_json = run_commands(stoa.environment, ["ps"], ["ps", "--json"])
    for number, pid in enumerate(pids):
        assert re.search(rf"^{MODEL}/{number}\tloaded\t{pid}\t", listed.stdout, re.MULTILINE), listed.stdout
    [fields] = [one for one in json.loads(as_json.stdout) if one["id"] == MODEL]
    assert [one["pid"] for one in fields["replicas"]] == pids
    assert fields["slots"] == COUNT
    asyncio.run(ask_all(stoa, ["where"]))
    metrics = stoa.get("/metrics").text
    for number in range(COUNT):
        assert f'stoa_model_replica_up{{model="{MODEL}",replica="{number}"}} 1.0' in metrics
        assert f'stoa_prefix_cache_queries_total{{model="{MODEL}",replica="{number}"}}' in metrics
    assert re.search(rf'stoa_pool_requests_total{{member="replica-\d",model="{MODEL}",outcome="completed"}}', metrics)
    assert re.search(rf'stoa_pool_time_to_first_token_seconds_count{{member="replica-\d",model="{MODEL}"}}', metrics)
    assert 'stoa_model_replica_up{model="talker"' not in metrics


def test_no_waiting_request_is_lost_when_a_replica_is_killed(stoa: RunningServer, pids: list[int]):
    async def scenario() -> list[tuple[int, str]]:
        busy = [await stoa.engine.generate(MODEL, request("silence"), replica=number) for number in range(COUNT)]
        async with stoa.client() as client:
            waiting = [asyncio.create_task(ask(client, f"where {number}")) for number in range(30)]
            until = time.monotonic() + 60
            while in_flight(await asyncio.to_thread(metrics, stoa)).get("replica-0", 0) < 3:
                assert time.monotonic() < until
            assert not any(task.done() for task in waiting)
            os.kill(pids[0], signal.SIGKILL)
            for stream in busy:
                await stream.close()
            answers = await asyncio.gather(*waiting)
        await stoa.engine.close()
        return answers

    answers = asyncio.run(scenario())
    assert [status for status, _ in answers] == [200] * 30
    assert pids[0] not in map(pid_in, answers)
    found = re.findall(rf'stoa_pool_failovers_total{{member="replica-\d",model="{MODEL}"}} (\d+)', metrics(stoa))
    assert sum(map(int, found)) >= 3
    assert sum(in_flight(metrics(stoa)).values()) == 0


def in_flight(text: str) -> dict[str, float]:
    """Return the requests that each replica has, by a scrape."""
    pattern = rf'stoa_pool_requests_in_flight{{member="(replica-\d)",model="{MODEL}"}} ([\d.]+)'
    return {member: float(count) for member, count in re.findall(pattern, text)}


def metrics(stoa: RunningServer) -> str:
    return stoa.get("/metrics").text


def test_a_request_of_a_client_that_leaves_is_cancelled_in_its_replica(stoa: RunningServer, pids: list[int]):
    async def scenario() -> None:
        body = {"model": MODEL, "prompt": "four", "max_tokens": 1_000_000, "stream": True}
        async with stoa.client() as client, client.stream("POST", "/v1/completions", json=body) as answer:
            lines = answer.aiter_lines()
            assert await anext(lines)
            assert (await stoa.engine.stats(MODEL)).running == 1
        until = time.monotonic() + 20
        while (await stoa.engine.stats(MODEL)).running:
            assert time.monotonic() < until
            await asyncio.sleep(0.05)
        await stoa.engine.close()

    asyncio.run(scenario())
    assert sum(in_flight(metrics(stoa)).values()) == 0


def test_a_killed_replica_is_named_and_comes_back(stoa: RunningServer, pids: list[int]):
    os.kill(pids[1], signal.SIGKILL)
    until = time.monotonic() + 60
    while len(found := running_pids(stoa)) < COUNT or pids[1] in found:
        assert asyncio.run(ask_all(stoa, ["where"]))[0][0] == 200
        assert model_info(stoa)["state"] == "loaded"
        assert time.monotonic() < until
    seen: set[int] = set()
    while seen != set(found):
        seen |= {pid_in(answer) for answer in asyncio.run(ask_all(stoa, [f"where {number}" for number in range(12)]))}
        assert time.monotonic() < until


def test_a_request_that_ends_its_process_does_not_end_all_replicas(stoa: RunningServer):
    loaded = stoa.post(f"/models/{MODEL}/load", {"replicas": 5})
    assert loaded.status_code == 200, loaded.text
    before = set(running_pids(stoa))
    status, code = asyncio.run(ask_all(stoa, ["kill"]))[0]
    assert (status, code) == (503, "inference_failed")
    deadline = time.monotonic() + 10
    while len(left := before & set(running_pids(stoa))) > 2 and time.monotonic() < deadline:
        time.sleep(0.1)  # an ended process is listed until the host has seen that it ended
    assert len(left) == 2


def test_a_command_loads_replicas_and_unload_ends_them(stoa: RunningServer):
    [loaded] = run_commands(stoa.environment, ["models", "load", MODEL, "--replicas", "2", "--json"])
    assert loaded.returncode == 0, loaded.stderr
    assert json.loads(loaded.stdout)["replicas"] == 2
    found = running_pids(stoa)
    assert len(found) == 2
    assert stoa.post(f"/models/{MODEL}/unload").status_code == 200
    assert not any(os.path.exists(f"/proc/{pid}") for pid in found)
    assert (model_info(stoa)["state"], model_info(stoa)["replica_states"]) == ("unloaded", None)


def test_embeddings_tokens_and_decisions_come_from_replicas_too(stoa: RunningServer):
    assert stoa.post("/models/embedder/load", {"replicas": 2}).status_code == 200
    vectors = stoa.post("/v1/embeddings", {"model": "embedder", "input": ["a", "lamp"]}).json()["data"]
    assert len(vectors) == 2
    tokens = stoa.post("/tokenize", {"model": "embedder", "prompt": "ab"})
    assert tokens.status_code == 200, tokens.text
    assert stoa.post(f"/models/{MODEL}/load", {"replicas": 2}).status_code == 200
    question = {"type": "predicate", "name": "refund", "instructions": "The customer wants a refund."}
    decided = stoa.post("/v1/decisions", {"model": MODEL, "input": "Charged twice.", "questions": [question]})
    assert decided.status_code == 200, decided.text
    assert decided.json()["answers"][0]["probability"] == pytest.approx(3 / 5)
