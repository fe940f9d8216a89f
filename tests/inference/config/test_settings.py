"""Settings that the model server rejects."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]


def test_a_folder_of_sockets_that_is_set_stays_as_short_as_it_is(tmp_path: Path):
    (tmp_path / ("long" * 20)).mkdir()
    (tmp_path / "run").symlink_to(tmp_path / ("long" * 20))
    done = subprocess.run(
        [sys.executable, "-c", "from inference.config.settings.base import RUN_DIR; print(RUN_DIR)"],
        cwd=REPOSITORY,
        env=os.environ | {"STOA_HOME": str(tmp_path), "STOA_RUN_DIR": str(tmp_path / "run")},
        capture_output=True,
        text=True,
        timeout=120,
    )
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
    environment = os.environ | {"STOA_HOME": str(tmp_path)} | given
    done = subprocess.run(
        [sys.executable, "-c", "import inference.config.settings.base"],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    if code:
        assert "STOA_START_HOST is false: set them as options of the model host" in done.stderr.splitlines()[-1]
