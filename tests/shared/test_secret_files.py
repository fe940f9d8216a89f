"""Generated secrets: created once, atomically, and readable by their owner only."""

import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared.secret_files import can_be_guessed, read_or_make_secret

pytestmark = [pytest.mark.each_project, pytest.mark.no_database]


def test_a_secret_is_generated_once_and_read_again(tmp_path: Path) -> None:
    secret = read_or_make_secret(tmp_path / "a.key")
    assert not can_be_guessed(secret)
    assert read_or_make_secret(tmp_path / "a.key") == secret
    assert read_or_make_secret(tmp_path / "b.key") != secret


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    read_or_make_secret(tmp_path / "a.key")
    assert stat.S_IMODE((tmp_path / "a.key").stat().st_mode) == 0o600


def test_concurrent_processes_read_the_same_secret(tmp_path: Path) -> None:
    together = threading.Barrier(20)

    def make(_: int) -> str:
        together.wait(timeout=30)
        return read_or_make_secret(tmp_path / "a.key")

    with ThreadPoolExecutor(20) as pool:
        secrets = set(pool.map(make, range(20)))
    assert len(secrets) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.key"]


@pytest.mark.parametrize("key", ["", "short", "a" * 64, "django-insecure-" + "0123456789abcdef" * 4])
def test_a_weak_key_can_be_guessed(key: str) -> None:
    assert can_be_guessed(key)
