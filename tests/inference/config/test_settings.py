"""Settings of the model server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]


def read_settings(name: str, home: Path, given: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Print a setting in a process of its own."""
    program = f"from inference.config.settings.base import {name}; print({name})"
    environment = os.environ | {"STOA_HOME": str(home)} | given
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120)


def test_a_folder_of_sockets_that_is_set_stays_as_short_as_it_is(tmp_path: Path):
    (tmp_path / ("long" * 20)).mkdir()
    (tmp_path / "run").symlink_to(tmp_path / ("long" * 20))
    done = read_settings("RUN_DIR", tmp_path, {"STOA_RUN_DIR": str(tmp_path / "run")})
    assert done.stdout.strip() == str(tmp_path / "run"), done.stderr


@pytest.mark.parametrize(
    ("given", "code"),
    [({"STOA_EVICT": "true"}, 0), ({"STOA_START_HOST": "false"}, 0)]
    + [
        ({"STOA_START_HOST": "false", name: value}, 1)
        for name, value in {"STOA_MEMORY_BUDGET": "8GiB", "STOA_AUTOLOAD": "true"}.items()
    ],
)
def test_settings_of_a_model_host_are_rejected_if_it_runs_separately(tmp_path: Path, given: dict[str, str], code: int):
    done = read_settings("START_HOST", tmp_path, given)
    assert done.returncode == code, done.stderr
    if code:
        assert "STOA_START_HOST is false: set them as options of the model host" in done.stderr.splitlines()[-1]
