"""Commands that use the server that STOA_URL names."""

import json
from pathlib import Path

import pytest

from tests.inference.running_server import RunningServer, run_commands


@pytest.fixture
def client_environment(stoa: RunningServer, tmp_path: Path) -> dict[str, str]:
    """The environment of a user on another machine, which has no model host, no models and no tables."""
    return stoa.environment | {
        "STOA_URL": stoa.url,
        "STOA_API_KEY": stoa.keys["SUPER_ADMIN"],
        "STOA_RUN_DIR": str(tmp_path / "run"),
        "STOA_MODELS_DIR": str(tmp_path),
        "DATABASE_URL": f"sqlite:///{tmp_path / 'empty.sqlite3'}",
    }


def test_with_the_url_of_a_server_commands_use_its_api(client_environment: dict[str, str], tmp_path: Path):
    requests = tmp_path / "requests.jsonl"
    requests.write_text('{"id": "a", "prompt": "speak"}\n')
    said, listed, loaded, unloaded, shown, batch = run_commands(
        client_environment,
        ["run", "talker", "hello", "--max-tokens", "3"],
        ["models", "list"],
        ["models", "load", "idle", "--context-size", "64"],
        ["models", "unload", "idle"],
        ["models", "show", "nothing"],
        ["batch", "submit", str(requests), "--model", "talker", "-o", "max_tokens=3"],
    )
    assert (said.returncode, said.stdout, said.stderr) == (0, "w0 w1 w2 \n", "")
    assert any(line.startswith("talker\t") for line in listed.stdout.splitlines())
    assert "context_size\t64" in loaded.stdout
    assert (unloaded.returncode, unloaded.stderr) == (0, "Unloaded idle\n")
    assert (shown.returncode, "There is no model 'nothing'. Available: " in shown.stderr) == (4, True)

    batch_id = batch.stdout.strip()
    status, results, cancelled, missing, removed, running = run_commands(
        client_environment,
        ["batch", "status", batch_id, "--json"],
        ["batch", "results", batch_id],
        ["batch", "cancel", batch_id],
        ["batch", "status", "batch_x"],
        ["models", "remove", "talker", "--yes"],
        ["ps"],
    )
    assert (json.loads(status.stdout)["total"], results.stdout) == (1, "")
    assert cancelled.stderr == f"{batch_id}: cancelled, 0 of 1 completed\n"
    assert (missing.returncode, "batch" in missing.stderr) == (4, True)
    for local in (removed, running):
        assert (local.returncode, "works on this machine alone: unset STOA_URL" in local.stderr) == (2, True)


def test_a_server_that_refuses_or_does_not_answer_is_one_sentence(client_environment: dict[str, str]):
    for changes, code, message in (
        ({"STOA_API_KEY": "stoa_wrong"}, 1, "Set STOA_API_KEY to a key of the server"),
        ({"STOA_URL": "http://127.0.0.1:9"}, 3, "Is STOA_URL right?"),
    ):
        (listed,) = run_commands(client_environment | changes, ["models", "list"])
        assert (listed.returncode, message in listed.stderr, listed.stderr.count("\n")) == (code, True, 1)
