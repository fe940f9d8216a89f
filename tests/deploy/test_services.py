"""A test run whose servers are not installed is not done, and says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.conftest import DEPLOY


@pytest.mark.parametrize(("in_ci", "code"), [("false", 86), ("true", 1)])
def test_a_missing_server_is_told_with_how_to_get_it(tmp_path: Path, in_ci: str, code: int):
    of_no_run = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:django", "-p", "tests.services", "--redis=redis", __file__],
        cwd=DEPLOY.parent,
        env=of_no_run | {"PATH": str(tmp_path), "CI": in_ci},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.returncode == code
    assert "NOT RUN" in told.stderr
    assert "apt-get install redis-server" in told.stderr
    assert "passed" not in told.stdout
