"""Errors of `python manage_commerce.py` for invalid settings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_database

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("name", "value"), [("STOA_LOG_LEVEL", "loud"), ("DATABASE_URL", "nonsense")])
def test_an_invalid_setting_is_a_one_line_error(name: str, value: str, tmp_path: Path):
    environment = {key: kept for key, kept in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "manage_commerce.py", "check"],
        cwd=CHECKOUT,
        env=environment | {"STOA_HOME": str(tmp_path), name: value},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"manage_commerce.py: {name} is ")
    assert len(done.stderr.splitlines()) == 1
