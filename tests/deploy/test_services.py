"""The plugin tests.services ends a test run whose servers are not installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.conftest import DEPLOY


@pytest.mark.parametrize(("in_ci", "code"), [("false", 86), ("true", 1)])
def test_a_missing_server_is_reported_with_its_installation(tmp_path: Path, in_ci: str, code: int):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:django", "-p", "tests.services", "--redis=redis", __file__],
        cwd=DEPLOY.parent,
        env=environment | {"PATH": str(tmp_path), "CI": in_ci},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert completed.returncode == code
    assert "NOT RUN" in completed.stderr
    assert "apt-get install redis-server" in completed.stderr
    assert "passed" not in completed.stdout
