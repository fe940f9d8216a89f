"""Row N13: a server or command that cannot use its folder or database says so in one sentence."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
NOBODY = 65534

pytestmark = pytest.mark.no_database


def run_command(*arguments: str, user: int | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "VIRTUAL_ENV")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=CHECKOUT,
        env=inherited | environment,
        user=user,
        capture_output=True,
        text=True,
        timeout=120,
    )


def assert_one_sentence(ended: subprocess.CompletedProcess[str], *parts: str) -> None:
    lines = ended.stderr.strip().splitlines()
    assert ended.returncode not in (0, -6, -11)
    assert len(lines) == 1, ended.stderr
    for part in parts:
        assert part in lines[0]


@pytest.mark.parametrize("command", ["manage_commerce.py serve --port 0", "manage_inference.py serve --port 0"])
@pytest.mark.parametrize("content", [b"this is no database" * 500, b"SQLite format 3\0" + b"\xff" * 8000])
def test_n13_a_damaged_database_ends_the_server_with_one_sentence(tmp_path: Path, command: str, content: bytes):
    (tmp_path / "var").mkdir(mode=0o700)
    (tmp_path / "var" / "stoa.sqlite3").write_bytes(content)
    assert_one_sentence(run_command(*command.split(), STOA_HOME=str(tmp_path)), "database")


def test_n13_a_damaged_database_ends_a_command_with_one_sentence(tmp_path: Path):
    (tmp_path / "var").mkdir(mode=0o700)
    (tmp_path / "var" / "stoa.sqlite3").write_bytes(b"this is no database" * 500)
    assert_one_sentence(run_command("manage_commerce.py", "migrate", STOA_HOME=str(tmp_path)), "database")


def test_an_unknown_setting_stops_a_server_and_warns_a_command(tmp_path: Path):
    environment = {"STOA_HOME": str(tmp_path), "STOA_KEY": "of another program"}
    assert_one_sentence(run_command("manage_commerce.py", "serve", "--port", "0", **environment), "STOA_KEY")
    ended = run_command("manage_commerce.py", "settings", **environment)
    assert (ended.returncode, ended.stderr.count("STOA_KEY")) == (0, 1)


@pytest.mark.parametrize("command", ["manage_commerce.py serve", "manage_inference.py serve"])
def test_n13_a_home_that_cannot_be_written_ends_the_server_with_one_sentence(command: str):
    assert_one_sentence(run_command(*command.split(), STOA_HOME="/proc/stoa"), "/proc/stoa/var", "STOA_HOME")


def test_n13_a_folder_of_another_user_ends_the_server_with_one_sentence():
    if os.geteuid():
        pytest.skip("NOT RUN: only root can run a process as another user")
    with tempfile.TemporaryDirectory(prefix="stoa") as home:  # pytest's own folders cannot be reached by others
        Path(home).chmod(0o755)
        (Path(home) / "var").mkdir(mode=0o700)
        try:
            ended = run_command("manage_commerce.py", "serve", "--port", "0", user=NOBODY, STOA_HOME=home)
        except PermissionError:
            pytest.skip("NOT RUN: another user cannot run this Python")
        assert_one_sentence(ended, home, "must be of the user who runs Stoa")
