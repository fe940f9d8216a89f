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
    offline = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": str(tmp_path)}
    environment = dict(os.environ) | SETTINGS | {"STOA_HOME": str(tmp_path)} | offline
    failed = run_manage(environment, "engines", "install", "vllm")
    assert failed.returncode == 1
    index = "https://download.pytorch.org/whl/cpu"  # PyPI has no builds of torch for the CPU alone
    assert f"install --no-deps --extra-index-url {index} torch==2.13.0+cpu" in failed.stderr
    assert "No matching distribution found for torch==2.13.0+cpu" in failed.stderr
    assert not (tmp_path / "var" / "engines" / "vllm-0.32.0" / "installed.json").exists()
    by_hand = run_manage(environment, "engines", "install", "sglang")
    assert by_hand.returncode == 1
    assert "Stoa has tested no version of sglang and installs none. Install one by hand" in by_hand.stderr
    unknown = run_manage(environment, "engines", "install", "ollama")
    assert unknown.returncode == 2
    assert "stoa, vllm, llama.cpp, sglang" in unknown.stderr
