"""The commands of the command line, each in a process of its own."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.inference.engine.processes import REPOSITORY
from tests.inference.running_server import (
    TALKER_CONFIG,
    RunningServer,
    add_model,
    run_commands,
    run_manage,
    start_server,
)


def test_run_streams_the_response_of_the_running_host(stoa: RunningServer):
    done = run_manage(stoa.environment, "run", "talker", "hello", "--max-tokens", "3")

    assert (done.returncode, done.stdout) == (0, "w0 w1 w2 \n")


def test_run_reads_a_prompt_from_stdin_with_options_and_shows_timings(stoa: RunningServer):
    command = [sys.executable, "manage_inference.py", "run", "talker", "-s", "Be brief.", "-o", "max_tokens=3"]
    done = subprocess.run(
        [*command, "-o", "stop=x", "--verbose"],
        cwd=REPOSITORY, env=stoa.environment, input="hello\n", capture_output=True, text=True, timeout=100,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, "w0 w1 w2 \n")
    assert "output:               3 tokens" in done.stderr
    assert "time to first token:" in done.stderr


def test_ctrl_c_exits_with_130_and_cancels_the_request(stoa: RunningServer):
    command = [sys.executable, "manage_inference.py", "run", "talker", "hello", "--max-tokens", "4000"]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, env=stoa.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.read(3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)

    assert (process.returncode, b"Traceback" in stderr) == (130, False)
    deadline = time.monotonic() + 30
    while running_requests(stoa, "talker"):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_i4_input_with_invalid_encoding_is_refused(stoa: RunningServer):
    command = [sys.executable, "manage_inference.py", "run", "talker"]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=stoa.environment | {"PYTHONIOENCODING": "utf-8"},
        input=b"lamp \xff\xfe", capture_output=True, timeout=100,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"stoa: The input must be utf-8 text: byte 5 is invalid.\n"


def test_bench_measures_a_model_at_several_concurrency_levels(stoa: RunningServer):
    measured, unread, unknown = run_commands(
        stoa.environment,
        ["bench", "talker", "--concurrency", "1,2", "--prompt-words", "2", "--max-tokens", "5", "--json"],
        ["bench", "talker", "--concurrency", "1,none"],
        ["bench", "nobody"],
    )

    assert measured.returncode == 0, measured.stderr
    results = json.loads(measured.stdout)
    assert [(one["concurrency"], one["prompt_tokens"]) for one in results] == [
        (1, 11),
        (2, 11),
    ]  # the fake model's tokens are letters
    for one in results:
        assert one["between_tokens_p50_ms"] > 9  # the fake model takes 10 ms per token
        assert 0 < one["tokens_per_second"] < 100 * one["concurrency"]
        assert 0 < one["first_token_p50_ms"] <= one["first_token_max_ms"]
    assert [(done.returncode, done.stdout) for done in (unread, unknown)] == [(2, ""), (4, "")]


def running_requests(stoa: RunningServer, model: str) -> int:
    """Return the number of a model's running requests, as `ps` shows it."""
    models = json.loads(run_manage(stoa.environment, "ps", "--json").stdout)
    return int(next(fields["running"] for fields in models if fields["id"] == model))


def test_run_loads_a_model_only_for_its_duration(stoa: RunningServer):
    done = run_manage(stoa.environment, "run", "idle", "hello", "--max-tokens", "2", "--raw")

    assert (done.returncode, done.stdout) == (0, "w0 w1 \n")
    listed = {model["id"]: model["state"] for model in stoa.get("/models").json()["models"]}
    assert listed["idle"] == "unloaded"


def test_m1_an_unknown_model_is_refused_with_the_available_ones(stoa: RunningServer):
    for done in run_commands(
        stoa.environment, *(["run", model, "hello"] for model in ("../talker", "talker\n", "/etc"))
    ):
        assert (done.returncode, done.stdout) == (4, ""), done
        assert "Available: broken-one, embedder" in done.stderr
        assert "Traceback" not in done.stderr


def test_i4_an_invalid_parameter_is_refused(stoa: RunningServer):
    wrong = {
        ("--temperature", "3"): "temperature",
        ("--max-tokens", "0"): "max_tokens",
        ("--top-p", "x"): "top_p",
        ("--nonsense", "1"): "nonsense",
        ("-o", "min_p=2"): "min_p",
        ("-o", "nonsense=1"): "Unknown parameter nonsense",
        ("-o", "seed"): "KEY=VALUE",
    }
    ended = run_commands(stoa.environment, *(["run", "talker", "hello", *option] for option in wrong))
    for done, expected in zip(ended, wrong.values(), strict=True):
        assert (done.returncode, done.stdout) == (2, ""), done
        assert expected in done.stderr.replace("-", "_")


def test_models_are_listed_for_people_and_scripts(stoa: RunningServer):
    lines = run_manage(stoa.environment, "models", "list")
    assert lines.returncode == 0
    assert [line.split("\t")[:3] for line in lines.stdout.splitlines() if line.startswith(("id\t", "talker"))] == [
        ["id", "type", "state"],
        ["talker", "safetensors", "loaded"],
    ]

    listed = json.loads(run_manage(stoa.environment, "models", "list", "--json").stdout)
    assert listed == stoa.get("/models").json()


def test_a_model_is_loaded_listed_shown_and_unloaded(stoa: RunningServer):
    show = ["models", "show", "idle", "--json"]
    loaded, running, shown, unloaded, left = run_commands(
        stoa.environment,
        ["models", "load", "idle", "--context-size", "128", "--json"],
        ["ps", "--json"],
        show,
        ["models", "unload", "idle"],
        ["ps", "--json"],
    )

    assert (loaded.returncode, json.loads(loaded.stdout)["context_size"]) == (0, 128)
    listed = {fields["id"]: fields for fields in json.loads(running.stdout)}
    assert (listed["idle"]["state"], listed["idle"]["context_size"], listed["idle"]["running"]) == ("loaded", 128, 0)
    assert (json.loads(shown.stdout)["state"], json.loads(shown.stdout)["context_size"]) == ("loaded", 128)
    assert unloaded.returncode == 0
    assert "idle" not in {fields["id"] for fields in json.loads(left.stdout)}
    again = json.loads(run_manage(stoa.environment, *show).stdout)
    assert again == {model["id"]: model for model in stoa.get("/models").json()["models"]}["idle"]


def test_unload_changes_the_desired_state_without_a_model_host(stoa: RunningServer, tmp_path: Path):
    nowhere = stoa.environment | {"STOA_RUN_DIR": str(tmp_path), "STOA_START_HOST": "false"}
    done = run_manage(nowhere, "models", "unload", "idle")

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "No model host is running. idle will not be loaded again.\n"


def test_a_loaded_model_without_files_is_listed_runs_and_can_be_unloaded(stoa: RunningServer):
    folder = add_model(stoa.models_dir, "swept", dict(TALKER_CONFIG))
    assert stoa.post("/models/swept/load").status_code == 200
    shutil.rmtree(folder)

    listed, shown, ran, loaded, removed, unloaded, left = run_commands(
        stoa.environment,
        ["models", "list"],
        ["models", "show", "swept"],
        ["run", "swept", "hello", "--max-tokens", "2"],
        ["models", "load", "swept", "--context-size", "32"],
        ["models", "remove", "swept", "--yes"],
        ["models", "unload", "swept"],
        ["models", "show", "swept"],
    )
    (row,) = (line for line in listed.stdout.splitlines() if line.startswith("swept"))
    assert row.startswith("swept\tunknown\tloaded\t\t64\t\tIts files are in no folder of STOA_MODELS_DIR")
    assert (shown.returncode, "state\tloaded\n" in shown.stdout) == (0, True)
    assert (ran.returncode, ran.stdout) == (0, "w0 w1 \n")
    for refused in (loaded, removed):
        assert (refused.returncode, "or unload it" in refused.stderr) == (4, True)
    assert (unloaded.returncode, left.returncode) == (0, 4)


def test_invalid_model_commands_report_the_reason(stoa: RunningServer):
    wrong: list[tuple[list[str], int, str]] = [
        (["models", "load", "nobody"], 4, "Available"),
        (["models", "show", "../talker"], 4, "Available"),
        (["models", "unload", "nobody"], 4, "Available"),
        (["models", "load", "idle", "--dtype", "float8"], 2, "dtype"),
        (["models", "load", "broken-one"], 1, "weights are missing"),
    ]
    ended = run_commands(stoa.environment, *(arguments for arguments, _, _ in wrong))
    for done, (_, status, expected) in zip(ended, wrong, strict=True):
        assert (done.returncode, done.stdout) == (status, ""), done
        assert expected in done.stderr


def test_the_exit_code_without_a_model_host_is_3(stoa: RunningServer, tmp_path: Path):
    alone = stoa.environment | {"STOA_RUN_DIR": str(tmp_path)}

    for done in run_commands(alone, ["ps"], ["models", "load", "idle"]):
        assert (done.returncode, done.stdout) == (3, "")
        assert "No model host answers" in done.stderr


def test_the_environment_overrides_the_env_file(stoa: RunningServer, tmp_path: Path):
    (tmp_path / ".env").write_text("STOA_MODELS_DIR=/from/the/file\nSTOA_RUN_DIR=/run/from/the/file\n")
    environment = stoa.environment | {"STOA_HOME": str(tmp_path), "STOA_MODELS_DIR": "/from/the/environment"}
    del environment["STOA_RUN_DIR"]

    facts = json.loads(run_manage(environment, "info", "--json").stdout)

    assert facts["model_folders"][0] == "/from/the/environment"
    assert facts["model_host"] == "/run/from/the/file"
    (tmp_path / ".env").write_text("STOA_MODELDIR=/misspelt\n")
    misspelt = run_manage(environment, "info")
    assert misspelt.returncode != 0
    assert "STOA_MODELDIR" in misspelt.stderr


def test_x5_keys_are_listed_without_secrets_and_revoked(stoa: RunningServer):
    made = json.loads(run_manage(stoa.environment, "keys", "create", "1", "lost", "--json").stdout)
    header = {"X-API-Key": made["key"]}
    assert httpx2.get(f"{stoa.url}/models", headers=header, timeout=60).status_code == 200

    listed, users, another_users, revoked, unknown = run_commands(
        stoa.environment,
        ["keys", "list", "--json"],
        ["keys", "list", "--user", "1"],
        ["keys", "list", "--user", "999"],
        ["keys", "revoke", str(made["id"])],
        ["keys", "revoke", "999999"],
    )

    fields = {key["id"]: key for key in json.loads(listed.stdout)}[made["id"]]
    assert (fields["name"], fields["user_id"], fields["revoked_at"]) == ("lost", 1, None)
    assert made["key"].startswith(fields["prefix"])
    assert made["key"] not in listed.stdout
    assert "lost" in users.stdout
    assert len(another_users.stdout.splitlines()) == 1  # the header
    assert (revoked.returncode, unknown.returncode) == (0, 4)
    assert httpx2.get(f"{stoa.url}/models", headers=header, timeout=60).status_code == 401


def test_a5_a_key_is_created_shown_once_and_accepted(stoa: RunningServer):
    made = run_manage(stoa.environment, "keys", "create", "1", "laptop", "--json")

    key = json.loads(made.stdout)["key"]
    listed = run_manage(stoa.environment, "keys", "list", "--user", "1", "--json")
    assert httpx2.get(f"{stoa.url}/models", headers={"X-API-Key": key}, timeout=60).status_code == 200
    plain = run_manage(stoa.environment, "keys", "create", "--user", json.loads(listed.stdout)[0]["user"], "laptop")
    assert plain.stdout.startswith("stoa_")
    assert len(plain.stdout.splitlines()) == 1


def test_a_key_for_an_unknown_user_is_refused(stoa: RunningServer):
    ended = run_commands(
        stoa.environment,
        *(["keys", "create", user_id, "laptop"] for user_id in ("999999", "someone")),
        ["keys", "create", "--user", "nobody@example.com", "laptop"],
        ["keys", "create", "laptop"],
    )

    assert [(done.returncode, done.stdout) for done in ended] == [(4, ""), (2, ""), (4, ""), (2, "")]
    for done, text in zip(ended, ("999999", "--user", "nobody@example.com", "USER_ID NAME"), strict=True):
        assert text in done.stderr


def test_version_info_and_django_commands(stoa: RunningServer):
    version, info, misspelled = run_commands(stoa.environment, ["version"], ["info", "--json"], ["modles"])
    assert version.stdout == "stoa 1.0.0\n"
    facts = json.loads(info.stdout)
    assert facts["version"] == "1.0.0"
    assert {"talker", "embedder"} <= set(facts["loaded"])
    assert run_manage(stoa.environment, "check").returncode == 0
    assert (misspelled.returncode, "Did you mean 'models'?" in misspelled.stderr) == (2, True)


def test_doctor_finds_nothing_wrong_and_then_what_is(stoa: RunningServer, tmp_path: Path):
    found = run_manage(stoa.environment | {"STOA_URL": stoa.url}, "doctor", "--json")
    assert {one["check"] for one in json.loads(found.stdout)} >= {
        "database", "redis", "model host", "models", "disk", "server", "clock",
    }  # fmt: skip
    problems = {one["check"] for one in json.loads(found.stdout) if not one["is_ok"]}
    assert problems <= {"workers", "model"}  # it has no workers, and other tests leave models without files

    (tmp_path / "file").write_text("")
    broken = stoa.environment | {
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "STOA_RUN_DIR": str(tmp_path / "run"),
        "STOA_MODELS_DIR": str(tmp_path / "missing"),
        "STOA_FILES_DIR": str(tmp_path / "file"),
    }
    found = run_manage(broken, "doctor", "--json")
    problems = {one["check"]: one["advice"] for one in json.loads(found.stdout) if not one["is_ok"]}
    assert (found.returncode, problems.keys()) == (
        1,
        {"redis", "workers", "model host", "model folder", "disk"} | (problems.keys() & {"model", "models"}),
    )
    assert all(problems.values())

    new = stoa.environment | {"DATABASE_URL": f"sqlite:///{tmp_path / 'new.sqlite3'}"}
    found = run_manage(new, "doctor")
    assert (found.returncode, "Traceback" in found.stderr) == (1, False)
    assert "manage_inference.py migrate" in found.stdout
    assert found.stdout.count("\ndatabase\tPROBLEM") == 1  # missing tables are one problem, whichever check needs them


def test_logs_prints_the_last_lines_of_each_log(stoa: RunningServer, tmp_path: Path):
    elsewhere = stoa.environment | {"STOA_HOME": str(tmp_path)}
    assert run_manage(elsewhere, "logs").returncode == 4
    folder = tmp_path / "var" / "log"
    folder.mkdir(parents=True)
    (folder / "inference.log").write_text("one\ntwo\x1b[31m\n")
    (folder / "commerce.log").write_text("three\n")

    alone, both, unknown = run_commands(elsewhere, ["logs", "inference"], ["logs", "-n", "1"], ["logs", "redis"])
    assert alone.stdout == "one\ntwo\N{REPLACEMENT CHARACTER}[31m\n"
    assert both.stdout.splitlines() == ["commerce  | three", "inference | two\N{REPLACEMENT CHARACTER}[31m"]
    assert (unknown.returncode, "commerce, inference" in unknown.stderr) == (4, True)


def test_an_unexpected_error_is_one_sentence_and_with_debug_a_traceback(stoa: RunningServer, tmp_path: Path):
    (tmp_path / "var" / "log" / "inference.log").mkdir(parents=True)  # where a file is expected
    elsewhere = stoa.environment | {"STOA_HOME": str(tmp_path)}
    plain, traced = run_manage(elsewhere, "logs"), run_manage(elsewhere, "--debug", "logs")

    assert (plain.returncode, plain.stdout) == (1, "")
    sentence, advice = plain.stderr.splitlines()
    assert sentence.startswith("stoa: IsADirectoryError: ")
    assert advice == "For the traceback: stoa --debug logs ..."
    assert traced.returncode == 1
    assert traced.stderr.startswith("Traceback (most recent call last):")
    assert "IsADirectoryError: " in traced.stderr.splitlines()[-1]


def test_a_model_is_added_from_a_folder_or_a_file(stoa: RunningServer, tmp_path: Path):
    models = tmp_path / "models"
    elsewhere = stoa.environment | {"STOA_MODELS_DIR": str(models)}
    add_model(tmp_path, "mine", TALKER_CONFIG)
    (tmp_path / "file.txt").write_text("no model")

    added, again, named, none, unknown = run_commands(
        elsewhere,
        ["models", "add", str(tmp_path / "mine")],
        ["models", "add", str(tmp_path / "mine")],
        ["models", "add", str(tmp_path / "mine"), "--name", "yours"],
        ["models", "add", str(tmp_path / "file.txt")],
        ["models", "add", str(tmp_path / "nothing")],
    )
    assert [done.returncode for done in (added, again, named, none, unknown)] == [0, 1, 0, 2, 4], added.stderr
    assert "stoa models load mine" in added.stdout
    assert {path.name for path in models.iterdir()} == {"mine", "yours", ".downloads"}


def test_a_database_without_tables_is_reported(stoa: RunningServer, tmp_path: Path):
    new = stoa.environment | {"DATABASE_URL": f"sqlite:///{tmp_path / 'new.sqlite3'}"}
    for done in run_commands(new, ["keys", "list"], ["models", "unload", "talker"]):
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith("stoa: The database reports an error: no such table")
    for command in (["serve", "--port", "0"], ["worker"]):
        done = run_manage(new, *command)
        assert done.returncode == 1
        assert "has no tables" in done.stderr
        assert "stoa migrate" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STOA_REMOTE_MODELS", "[1"),
        ("STOA_MEMORY_BUDGET", "much"),
        ("STOA_MAX_LOADED_MODELS", "two"),
        ("STOA_IDLE_UNLOAD_SECONDS", "soon"),
        ("STOA_AUTOLOAD", "maybe"),
        ("STOA_LOG_LEVEL", "loud"),
        ("DATABASE_URL", "nonsense"),
        ("DATABASE_URL", "postgres://stoa:secret@host:port/stoa"),
    ],
)
def test_an_invalid_setting_is_reported_in_one_line(stoa: RunningServer, name: str, value: str):
    done = run_manage(stoa.environment | {name: value}, "info")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("stoa: ")
    assert name in done.stderr
    assert "secret" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_misspelled_setting_stops_a_server_and_warns_a_client(stoa: RunningServer):
    misspelled = stoa.environment | {"STOA_MODELDIR": "x"}
    client, server = run_manage(misspelled, "info"), run_manage(misspelled, "serve", "--port", "0")

    message = "STOA_MODELDIR is not a known setting: did you mean STOA_MODELS_DIR?"
    assert (client.returncode, client.stderr) == (0, f"Warning: {message}\n")
    assert (server.returncode, server.stderr) == (2, f"stoa: {message}\n")


def test_serve_refuses_a_public_address_and_a_port_in_use(stoa: RunningServer):
    public = run_manage(stoa.environment, "serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 it must refuse
    assert public.returncode == 1
    assert "production" in public.stderr

    taken = run_manage(stoa.environment, "serve", "--port", stoa.url.rpartition(":")[2])
    assert taken.returncode == 1
    assert "--port" in taken.stderr


def child_hosts(process: psutil.Process) -> list[psutil.Process]:
    """Return the running model hosts that this process started."""
    hosts = []
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):  # raised for a zombie, too
            if "inference.engine.host" in child.cmdline():
                hosts.append(child)
    return hosts


def test_serve_starts_restarts_and_stops_a_model_host(stoa: RunningServer, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("r")
    environment = stoa.environment | {"STOA_RUN_DIR": str(folder), "STOA_LOAD": "nobody", "STOA_LOG_LEVEL": "ERROR"}
    process, url = start_server(
        environment, folder / "server.log", "--log-level", "info"
    )  # the server's address is logged at info
    try:
        wait_until_ready(url)
        assert httpx2.get(f"{url}/health", timeout=60).json() | {"uptime_seconds": 0, "version": ""} == {
            "status": "degraded",
            "version": "",
            "uptime_seconds": 0,
            "models_loaded": 0,
        }
        (host,) = child_hosts(psutil.Process(process.pid))
        assert os.getpgid(host.pid) != os.getpgid(
            process.pid
        )  # so that Ctrl-C reaches the server alone, which finishes requests
        host.kill()
        deadline = time.monotonic() + 30
        while not (hosts := child_hosts(psutil.Process(process.pid))) or host in hosts:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        wait_until_ready(url)
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()

    assert not any(host.is_running() for host in hosts)
    assert not (folder / "host.sock").exists()


def wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + 30
    while httpx2.get(f"{url}/readyz", timeout=60).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
