"""Downloading and removing models by the command line, from a hub on this machine."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.inference.downloads.local_hub import COMMIT, Hub, local_hub
from tests.inference.engine.processes import REPOSITORY
from tests.inference.running_server import TALKER_CONFIG, RunningServer, run_commands, run_manage


def weights(size: int) -> bytes:
    """A safetensors file with one tensor of so many random bytes."""
    header = json.dumps({"weight": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + os.urandom(size)


WEIGHTS = weights(300_000)
FILES = {
    "config.json": json.dumps(TALKER_CONFIG).encode(),
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"evil",
    "modeling_talker.py": b"evil",
}
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with local_hub() as served:
        served.repositories["org/far-talker"] = dict(FILES)
        yield served


@pytest.fixture
def environment(stoa: RunningServer, hub: Hub, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a CLI with an empty model folder, and the running server's host and database."""
    hub_only = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": "hf_secret"}
    return stoa.environment | hub_only | {"STOA_MODELS_DIR": str(tmp_path / "models")}


@pytest.fixture
def models(environment: dict[str, str]) -> Path:
    return Path(environment["STOA_MODELS_DIR"])


def test_models_add_downloads_a_repository(environment: dict[str, str], models: Path):
    added, again, named, unknown = run_commands(
        environment,
        ["models", "add", "org/far-talker"],
        ["models", "add", "org/far-talker"],
        ["models", "add", "org/far-talker", "--name", "mine"],
        ["models", "add", "org/nothing"],
    )
    assert [done.returncode for done in (added, again, named, unknown)] == [0, 0, 0, 4], added.stderr
    assert added.stdout.startswith("Downloaded far-talker: ")
    assert again.stdout.startswith("Already downloaded far-talker: ")
    assert "org/nothing" in unknown.stderr
    for name in ("far-talker", "mine"):
        assert (models / name / "model.safetensors").read_bytes() == WEIGHTS
        assert not (models / name / "modeling_talker.py").exists()


def test_a_downloaded_model_has_no_executable_files(hub: Hub, environment: dict[str, str], models: Path):
    done = run_manage(environment, "models", "download", "org/far-talker", "--json")

    assert (done.returncode, json.loads(done.stdout) if done.stdout else done.stderr) == (
        0,
        {
            "id": "far-talker",
            "path": str(models / "far-talker"),
            "repo_id": "org/far-talker",
            "commit": COMMIT,
            "size_bytes": sum(len(FILES[path]) for path in ("config.json", "tokenizer.json", "model.safetensors")),
            "was_there": False,
        },
    )
    folder = models / "far-talker"
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "tokenizer.json", "model.safetensors", "download.json",
    }  # fmt: skip
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    listed = {
        model["id"]: model for model in json.loads(run_manage(environment, "models", "list", "--json").stdout)["models"]
    }
    assert listed["far-talker"]["capabilities"] == ["text-generation"]
    files = f"/org/far-talker/resolve/{COMMIT}"
    asked = ["/api/models/org/far-talker", *(f"{files}/{path.name}" for path in sorted(folder.glob("[cmt]*")))]
    assert sorted(hub.asked_of_hub) == [(path, "Bearer hf_secret") for path in asked]
    assert set(hub.credentials_at_storage) == {""}

    again = run_manage(environment, "models", "download", "org/far-talker", "--json")
    assert json.loads(again.stdout)["was_there"] is True
    assert len(hub.asked) == 1


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_broken_connection_is_resumed_where_it_ended(
    hub: Hub, environment: dict[str, str], models: Path, knows_ranges: bool
):
    hub.cut_after, hub.knows_ranges = [100_000, 50_000], knows_ranges

    done = run_manage(environment, "models", "download", "org/far-talker")

    assert done.returncode == 0, done.stderr
    second = 150_000 if knows_ranges else 50_000
    assert [asked for _, asked in hub.asked] == [None, "bytes=100000-", f"bytes={second}-"]
    assert (models / "far-talker" / "model.safetensors").read_bytes() == WEIGHTS


def test_a_killed_download_is_resumed_where_it_ended(hub: Hub, environment: dict[str, str], models: Path):
    hub.hang_after = 200_000
    command = [sys.executable, "manage_inference.py", "models", "download", "org/far-talker"]
    process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while (
        not (partial := [*models.glob(".downloads/far-talker/model.safetensors.*.part")])
        or not partial[0].stat().st_size
    ):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (models / "far-talker").exists()
    assert "far-talker" not in run_manage(environment, "models", "list").stdout
    have = partial[0].stat().st_size
    hub.hang_after = None

    done = run_manage(environment, "models", "download", "org/far-talker")

    assert done.returncode == 0, done.stderr
    assert [asked for _, asked in hub.asked] == [None, f"bytes={have}-"]
    assert (models / "far-talker" / "model.safetensors").read_bytes() == WEIGHTS


def test_a_download_killed_during_its_last_check_is_completed(hub: Hub, environment: dict[str, str], models: Path):
    growing = models / ".downloads" / "far-talker"
    growing.mkdir(parents=True)
    (growing / f"model.safetensors.{hashlib.sha256(WEIGHTS).hexdigest()[:16]}.part").write_bytes(WEIGHTS)

    done = run_manage(environment, "models", "download", "org/far-talker")

    assert done.returncode == 0, done.stderr
    assert hub.asked == []
    assert (models / "far-talker" / "model.safetensors").read_bytes() == WEIGHTS


def test_invalid_responses_of_the_hub_are_errors(hub: Hub, environment: dict[str, str], models: Path):
    valid = hub.listing("org/far-talker")

    def with_weights(**weights: object) -> bytes:
        return json.dumps(valid | {"siblings": [*valid["siblings"][:2], valid["siblings"][2] | weights]}).encode()

    responses = {
        "org/portal": (b"<html>Sign in to this network</html>", 3),
        "org/list": (b"[]", 3),
        "org/other": (b'{"id": 1, "siblings": [{}]}', 3),
        "org/commit": (json.dumps(valid | {"sha": 5}).encode(), 3),
        "org/size": (with_weights(size="many"), 4),
        "org/negative": (with_weights(size=-1), 4),
        "org/path": (with_weights(rfilename="\x1b[2J.safetensors"), 4),
        "org/number": (with_weights(rfilename=5), 4),
        "org/blob": (with_weights(blobId="/../../../x"), 4),
        "org/digest": (with_weights(lfs={"sha256": "/../../../x", "size": 1, "pointerSize": 1}), 4),
    }
    hub.listings = {repo_id: listing for repo_id, (listing, _) in responses.items()}

    ended = run_commands(environment, *(["models", "download", repo_id] for repo_id in responses))

    assert [done.returncode for done in ended] == [status for _, status in responses.values()], ended
    assert all("stoa: " in done.stderr and "Traceback" not in done.stderr for done in ended)
    assert not [path for path in models.glob("*") if path.name != ".downloads"]


@pytest.mark.parametrize("path", ["model.safetensors", "config.json"])
def test_a_file_with_another_hash_makes_no_model(hub: Hub, environment: dict[str, str], models: Path, path: str):
    hub.lie.add(path)

    done = run_manage(environment, "models", "download", "org/far-talker")

    assert (done.returncode, done.stdout) == (1, "")
    assert path in done.stderr
    assert not (models / "far-talker").exists()
    assert not [*models.glob(f".downloads/far-talker/{path}*")]


def test_invalid_arguments_are_errors_that_name_them(hub: Hub, environment: dict[str, str]):
    wrong: list[tuple[list[str], int, str]] = [
        (["org/nobody"], 4, "does not exist"),
        (["../etc"], 2, "ORGANIZATION/NAME"),
        (["org/far-talker", "--revision", "nowhere"], 4, "revision"),
        (["org/far-talker", "--revision", "../x"], 2, "revision"),
        (["org/far-talker", "--include", "*.bin"], 2, "pytorch_model.bin"),
        (["org/far-talker", "--name", "../x"], 2, "id"),
        (["org/far-talker", "--name", ".hidden"], 2, "id"),
    ]
    ended = run_commands(environment, *(["models", "download", *arguments] for arguments, _, _ in wrong))
    for done, (_, status, message) in zip(ended, wrong, strict=True):
        assert (done.returncode, done.stdout) == (status, ""), done
        assert message in done.stderr
        assert "hf_secret" not in done.stderr
    assert hub.asked == []


def test_an_existing_model_is_never_overwritten(hub: Hub, environment: dict[str, str], models: Path):
    (models / "far-talker").mkdir(parents=True)

    refused = run_manage(environment, "models", "download", "org/far-talker")
    named = run_manage(
        environment, "models", "download", "org/far-talker", "--name", "near-talker", "--revision", COMMIT
    )

    assert refused.returncode == 1
    assert "--name" in refused.stderr
    assert [*(models / "far-talker").iterdir()] == []
    assert named.returncode == 0, named.stderr
    assert (models / "near-talker" / "config.json").is_file()


def test_an_unreachable_hub_is_an_error(environment: dict[str, str]):
    done = run_manage(environment | {"HF_ENDPOINT": "http://127.0.0.1:9"}, "models", "download", "org/far-talker")

    assert (done.returncode, done.stdout) == (3, "")
    assert "hub" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_is_removed_after_confirmation(stoa: RunningServer, environment: dict[str, str], models: Path):
    run_manage(environment, "models", "download", "org/far-talker")
    (models / "a-link").symlink_to(stoa.models_dir / "talker")

    unconfirmed = run_manage(environment, "models", "remove", "far-talker")
    assert unconfirmed.returncode == 2
    assert (models / "far-talker").is_dir()

    ids = ["far-talker", "a-link", "far-talker", "stoa-describer"]
    ended = run_commands(environment, *(["models", "remove", model_id, "--yes"] for model_id in ids))
    assert [done.returncode for done in ended] == [0, 0, 4, 1]
    assert {path.name for path in models.iterdir()} == {".downloads"}
    assert not [path for path in models.glob(".downloads/*") if path.is_dir()]
    assert (stoa.models_dir / "talker" / "config.json").is_file()
