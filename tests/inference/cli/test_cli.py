"""The command line, as a process."""

import json
import os
import signal
import subprocess
import sys

import httpx2
import pytest

from tests.inference.engine.processes import REPOSITORY
from tests.inference.served import ServedStoa, run_manage


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


@pytest.mark.parametrize(("user_id", "status"), [("999999", 1), ("someone", 2)])
def test_a_key_for_nobody_is_refused(stoa: ServedStoa, user_id: str, status: int):
    done = run_manage(stoa.environment, "keys", "create", user_id, "laptop")

    assert (done.returncode, done.stdout) == (status, "")
    assert user_id in done.stderr.replace("│", "")


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


def test_serve_with_no_host_starts_one_and_ends_it(stoa: ServedStoa, tmp_path_factory: pytest.TempPathFactory):
    run_dir = tmp_path_factory.mktemp("r")
    environment = stoa.environment | {"STOA_RUN_DIR": str(run_dir), "STOA_LOAD": "nobody"}
    command = [sys.executable, "manage_inference.py", "serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        url, said = "", []
        while not url or "model_not_loaded" not in "".join(said):
            line = process.stdout.readline()
            assert line, "".join(said)
            said.append(line)
            if line.startswith("{") and "urls" in json.loads(line):
                url = json.loads(line)["urls"][0]
        health = httpx2.get(f"{url}/health").json()
        os.kill(process.pid, signal.SIGTERM)
        process.stdout.read()
        assert process.wait(20) == 0

    assert (health["status"], health["models_loaded"]) == ("degraded", 0)
    assert not (run_dir / "host.sock").exists()
