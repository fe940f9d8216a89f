"""The command line, as a process."""

import contextlib
import json
import time

import httpx2
import psutil
import pytest

from tests.inference.served import ServedStoa, run_manage, start_server


def test_run_streams_to_the_terminal_through_the_running_host(stoa: ServedStoa):
    done = run_manage(stoa.environment, "run", "talker", "hello", "--max-tokens", "3")

    assert (done.returncode, done.stdout) == (0, "w0 w1 w2 \n")


def test_run_loads_a_model_for_the_time_of_the_run(stoa: ServedStoa):
    done = run_manage(stoa.environment, "run", "idle", "hello", "--max-tokens", "2", "--raw")

    assert (done.returncode, done.stdout) == (0, "w0 w1 \n")
    listed = {model["id"]: model["state"] for model in stoa.get("/models").json()["models"]}
    assert listed["idle"] == "unloaded"


@pytest.mark.parametrize("model", ["../talker", "talker\n"])
def test_m1_a_model_that_does_not_exist_is_said_with_those_that_do(stoa: ServedStoa, model: str):
    done = run_manage(stoa.environment, "run", model, "hello")

    assert (done.returncode, done.stdout) == (1, "")
    assert "Available: broken-one, embedder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("option", "value", "status"),
    [("--temperature", "3", 1), ("--max-tokens", "0", 1), ("--top-p", "x", 2), ("--nonsense", "1", 2)],
)
def test_i4_a_wrong_parameter_is_refused(stoa: ServedStoa, option: str, value: str, status: int):
    done = run_manage(stoa.environment, "run", "talker", "hello", option, value)

    assert (done.returncode, done.stdout) == (status, "")
    assert option.strip("-").replace("-", "_") in done.stderr.replace("-", "_")


def test_models_are_listed_for_people_and_scripts(stoa: ServedStoa):
    table = run_manage(stoa.environment, "models", "list")
    assert table.returncode == 0
    assert "talker" in table.stdout

    listed = json.loads(run_manage(stoa.environment, "models", "list", "--json").stdout)
    assert listed == stoa.get("/models").json()


def test_a5_a_key_is_made_shown_once_and_works(stoa: ServedStoa):
    made = run_manage(stoa.environment, "keys", "create", "1", "laptop", "--json")

    key = json.loads(made.stdout)["key"]
    assert httpx2.get(f"{stoa.url}/models", headers={"X-API-Key": key}).status_code == 200
    plain = run_manage(stoa.environment, "keys", "create", "1", "laptop")
    assert plain.stdout.startswith("stoa_")
    assert len(plain.stdout.splitlines()) == 1


@pytest.mark.parametrize(("user_id", "status", "said"), [("999999", 1, "999999"), ("someone", 2, "user_id")])
def test_a_key_for_nobody_is_refused(stoa: ServedStoa, user_id: str, status: int, said: str):
    done = run_manage(stoa.environment, "keys", "create", user_id, "laptop")

    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr


def test_version_and_info_and_djangos_own_verbs(stoa: ServedStoa):
    assert run_manage(stoa.environment, "version").stdout == "stoa 0.1.0\n"
    facts = json.loads(run_manage(stoa.environment, "info", "--json").stdout)
    assert facts["version"] == "0.1.0"
    assert {"talker", "embedder"} <= set(facts["loaded"])
    assert run_manage(stoa.environment, "check").returncode == 0
    assert run_manage(stoa.environment, "no-such-verb").returncode == 1


def test_serve_refuses_a_public_address_and_a_taken_port(stoa: ServedStoa):
    public = run_manage(stoa.environment, "serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 it must refuse
    assert public.returncode == 1
    assert "production" in public.stderr

    taken = run_manage(stoa.environment, "serve", "--port", stoa.url.rpartition(":")[2])
    assert taken.returncode == 1
    assert "--port" in taken.stderr


def child_hosts(process: psutil.Process) -> list[psutil.Process]:
    """The model hosts that this process started and that live."""
    hosts = []
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie is one too
            if "inference.engine.host" in child.cmdline():
                hosts.append(child)
    return hosts


def test_serve_with_no_host_starts_one_starts_it_again_and_ends_it(
    stoa: ServedStoa, tmp_path_factory: pytest.TempPathFactory
):
    folder = tmp_path_factory.mktemp("r")
    environment = stoa.environment | {"STOA_RUN_DIR": str(folder), "STOA_LOAD": "nobody"}
    process, url = start_server(environment, folder / "server.log")
    try:
        eventually_ready(url)
        assert httpx2.get(f"{url}/health").json() | {"uptime_seconds": 0, "version": ""} == {
            "status": "degraded",
            "version": "",
            "uptime_seconds": 0,
            "models_loaded": 0,
        }
        (host,) = child_hosts(psutil.Process(process.pid))
        host.kill()
        deadline = time.monotonic() + 30
        while not (hosts := child_hosts(psutil.Process(process.pid))) or host in hosts:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        eventually_ready(url)
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()

    assert not any(host.is_running() for host in hosts)
    assert not (folder / "host.sock").exists()


def eventually_ready(url: str) -> None:
    deadline = time.monotonic() + 30
    while httpx2.get(f"{url}/readyz").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
