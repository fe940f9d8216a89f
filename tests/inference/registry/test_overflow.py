"""A local model that overflows to another server: beyond its waiting requests, while it is not loaded, when it ends."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.benchmarks.pools._pools import MEMBER_KEY, MODEL, UNLIMITED, MemberProcess, running_members
from tests.inference.engine.processes import request
from tests.inference.running_server import RunningServer, run_commands, running_server_with_fake_models

LOCAL, REMOTE = "w0 w1 ", "w00 w01 "  # what each writes
MAX_WAITING = 2
pytestmark = [pytest.mark.timeout(600), pytest.mark.no_database]


@pytest.fixture(scope="module")
def gpu() -> Iterator[MemberProcess]:
    member = MemberProcess("gpu", ("--key", MEMBER_KEY, "--token-seconds", "0.01"))
    with running_members([member]):
        yield member


@pytest.fixture(scope="module")
def stoa(gpu: MemberProcess) -> Iterator[RunningServer]:
    with running_server_with_fake_models(MODEL, extra=UNLIMITED) as stoa:
        make_pool(stoa, gpu)
        yield stoa


def make_pool(stoa: RunningServer, gpu: MemberProcess, *further: list[str], state: str = "failed") -> None:
    """Make a pool of the local model and a server, and wait until the server knows it. state: of the local member."""
    key = stoa.models_dir.parent / "key"
    key.write_text(MEMBER_KEY)
    done = run_commands(
        stoa.environment,
        ["pools", "add", MODEL, "--kind", "local", "--max-waiting", str(MAX_WAITING)],
        ["pools", "add", MODEL, gpu.url, "--name", "gpu", "--kind", "vllm", "--api-key-file", str(key)],
        *further,
    )
    assert [one.stderr for one in done if one.returncode] == []
    wait_for_states(stoa, {"local": state, "gpu": "ready"})


def wait_for_states(stoa: RunningServer, states: dict[str, str]) -> None:
    until = time.monotonic() + 60
    while not states.items() <= {one["name"]: one["state"] for one in members(stoa)}.items():
        assert time.monotonic() < until
        time.sleep(0.1)


def members(stoa: RunningServer) -> list[dict[str, str]]:
    return list(model_info(stoa)["members"] or ())  # type: ignore[call-overload]


def model_info(stoa: RunningServer) -> dict[str, object]:
    [info] = [one for one in stoa.get("/models").json()["models"] if one["id"] == MODEL]
    return dict(info)


def load(stoa: RunningServer, **options: int) -> None:
    loaded = stoa.post(f"/models/{MODEL}/load", {"max_sequences": 1} | options)
    assert loaded.status_code == 200, loaded.text


async def ask(client: httpx2.AsyncClient, text: str = "hello") -> str:
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 2}
    answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


async def ask_once(stoa: RunningServer, text: str = "hello") -> str:
    async with stoa.client() as client:
        return await ask(client, text)


async def wait_until_waiting(stoa: RunningServer, count: int) -> None:
    until = time.monotonic() + 60
    while (stats := await stoa.engine.stats(MODEL)).waiting != count:
        assert time.monotonic() < until, stats
        await asyncio.sleep(0.02)


def test_requests_go_to_the_other_server_while_the_local_model_is_not_loaded(stoa: RunningServer):
    assert asyncio.run(ask_once(stoa)) == REMOTE
    info = model_info(stoa)
    assert (info["state"], info["loaded"], info["type"]) == ("loaded", True, "safetensors")
    states = {one["name"]: (one["state"], one["error"]) for one in members(stoa)}
    assert states["gpu"] == ("ready", None)
    assert states["local"] == ("failed", f"{MODEL} is not loaded; load it first.")


def test_requests_go_to_the_local_model_until_so_many_wait(stoa: RunningServer):
    load(stoa)
    assert asyncio.run(ask_once(stoa)) == LOCAL
    assert {one["name"]: one["state"] for one in members(stoa)} == {"gpu": "ready", "local": "ready"}

    async def scenario() -> tuple[list[str], list[str], str]:
        async with stoa.client() as client:
            busy = await stoa.engine.generate(MODEL, request("silence"))
            waiting = [asyncio.create_task(ask(client, f"waits {number}")) for number in range(MAX_WAITING)]
            await wait_until_waiting(stoa, MAX_WAITING)
            beyond = await asyncio.gather(*(ask(client, f"beyond {number}") for number in range(10)))
            assert not any(task.done() for task in waiting)
            await busy.close()
            done = await asyncio.gather(*waiting)
            after = await ask(client)
        await stoa.engine.close()
        return done, beyond, after

    done, beyond, after = asyncio.run(scenario())
    assert done == [LOCAL] * MAX_WAITING
    assert beyond == [REMOTE] * 10
    assert after == LOCAL


def test_of_many_requests_at_once_only_so_many_wait_at_the_local_model(stoa: RunningServer):
    load(stoa)

    async def scenario() -> list[str]:
        async with stoa.client() as client:
            return await asyncio.gather(*(ask(client, f"at once {number}") for number in range(30)))

    answers = asyncio.run(scenario())
    assert set(answers) == {LOCAL, REMOTE}


def test_requests_that_wait_at_a_killed_local_model_go_to_the_other_server(stoa: RunningServer):
    load(stoa)
    pid = asyncio.run(stoa.pid(MODEL))

    async def scenario() -> list[str]:
        async with stoa.client() as client:
            busy = await stoa.engine.generate(MODEL, request("silence"))
            waiting = [asyncio.create_task(ask(client, f"waits {number}")) for number in range(MAX_WAITING)]
            await wait_until_waiting(stoa, MAX_WAITING)
            os.kill(pid, signal.SIGKILL)
            done = await asyncio.gather(*waiting)
            await busy.close()
        await stoa.engine.close()
        return done

    assert asyncio.run(scenario()) == [REMOTE] * MAX_WAITING
    until = time.monotonic() + 60
    while asyncio.run(ask_once(stoa)) != LOCAL:  # it is restarted
        assert time.monotonic() < until


def test_a_local_model_that_does_not_answer_is_taken_for_full(stoa: RunningServer):
    load(stoa)
    pid = asyncio.run(stoa.pid(MODEL))
    os.kill(pid, signal.SIGSTOP)
    try:
        assert asyncio.run(asyncio.wait_for(ask_once(stoa), 15)) == REMOTE
    finally:
        os.kill(pid, signal.SIGCONT)


def test_requests_wait_at_the_local_model_if_no_other_server_works(stoa: RunningServer, gpu: MemberProcess):
    load(stoa)
    gpu.kill()
    try:

        async def scenario() -> list[str]:
            async with stoa.client() as client:
                busy = await stoa.engine.generate(MODEL, request("silence"))
                waiting = [asyncio.create_task(ask(client, f"waits {number}")) for number in range(MAX_WAITING + 3)]
                await wait_until_waiting(stoa, MAX_WAITING + 3)
                await busy.close()
                done = await asyncio.gather(*waiting)
            await stoa.engine.close()
            return done

        assert asyncio.run(scenario()) == [LOCAL] * (MAX_WAITING + 3)
    finally:
        gpu.start()
        wait_for_states(stoa, {"gpu": "ready"})


def test_a_local_member_may_have_replicas(stoa: RunningServer):
    load(stoa, replicas=2)

    async def scenario() -> list[str]:
        async with stoa.client() as client:
            return [await ask(client, f"one by one {number}") for number in range(10)]

    assert asyncio.run(scenario()) == [LOCAL] * 10
    metrics = stoa.get("/metrics").text
    for number in range(2):
        assert f'stoa_pool_requests_total{{member="local/{number}",model="{MODEL}",outcome="completed"}}' in metrics
        assert f'stoa_pool_time_to_first_token_seconds_count{{member="local/{number}",model="{MODEL}"}}' in metrics


def test_commands_list_and_test_the_local_member(stoa: RunningServer):
    load(stoa)
    listed, tested, second = run_commands(
        stoa.environment,
        ["pools", "list", "--json"],
        ["pools", "test", MODEL],
        ["pools", "add", MODEL, "--kind", "local", "--name", "again"],
    )
    [local] = [one for one in json.loads(listed.stdout) if one["kind"] == "local"]
    assert (local["member"], local["state"], local["base_url"], local["max_waiting"]) == (
        "local", "ready", "", MAX_WAITING,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    assert "local\tok" in tested.stdout
    assert second.returncode != 0
    assert "has a local member" in second.stderr


def test_tokens_are_those_of_the_local_model(stoa: RunningServer):
    load(stoa)
    answer = stoa.post("/tokenize", {"model": MODEL, "prompt": "ab"})
    assert answer.status_code == 200, answer.text


def test_a_drained_local_member_gets_no_requests(stoa: RunningServer):
    load(stoa)
    [drained] = run_commands(stoa.environment, ["pools", "drain", MODEL, "local"])
    assert drained.returncode == 0, drained.stderr
    wait_for_states(stoa, {"local": "draining"})
    assert asyncio.run(ask_once(stoa)) == REMOTE


def test_requests_do_not_load_a_drained_local_model(gpu: MemberProcess):
    with running_server_with_fake_models(MODEL, extra=UNLIMITED | {"STOA_AUTOLOAD": "true"}) as stoa:
        make_pool(stoa, gpu, ["pools", "drain", MODEL, "local"], state="draining")
        for _ in range(3):
            assert asyncio.run(ask_once(stoa)) == REMOTE
            time.sleep(0.5)
        assert MODEL not in [one.model_id for one in asyncio.run(stoa.host.models())]
