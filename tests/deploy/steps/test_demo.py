"""The folders of the demo."""

import argparse
import tempfile
from pathlib import Path

import pytest
from steps.demo import Demo
from steps.terminal import StepError


def environment_of(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("STOA_HOME", str(home))
    arguments = argparse.Namespace(info=None, commerce_port=None, inference_port=None)
    demo = Demo(arguments, installed=set(), began=0)
    demo.var.mkdir(parents=True, exist_ok=True)
    demo.commerce_url, demo.inference_url = "http://127.0.0.1:8000", "http://127.0.0.1:8001"
    return demo.environment()


def test_a_deep_folder_has_short_paths_of_sockets_that_its_commands_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    home = tmp_path / ("deep" * 20)
    (home / "var" / "run").mkdir(parents=True)  # of a command before the first demo
    for _ in range(2):
        run_dir = Path(environment_of(home, monkeypatch)["STOA_RUN_DIR"])
        assert run_dir.parent == tmp_path
        assert (home / "var" / "run").resolve() == run_dir  # where commands look that know no STOA_RUN_DIR
        assert run_dir.stat().st_mode & 0o777 == 0o700


def test_its_processes_keep_compiled_modules_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("STOA_LOG_LEVEL", "DEBUG")
    environment = environment_of(tmp_path, monkeypatch)
    assert "PYTHONDONTWRITEBYTECODE" not in environment
    assert environment["STOA_LOG_LEVEL"] == "DEBUG"


def test_a_folder_of_sockets_that_is_not_the_users_is_refused_and_not_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    home = tmp_path / ("deep" * 20)
    run_dir = Path(environment_of(home, monkeypatch)["STOA_RUN_DIR"])
    run_dir.rmdir()
    run_dir.symlink_to("/nowhere")  # as another user may make it, who has /tmp too
    with pytest.raises(StepError, match="belongs to another user"):
        environment_of(home, monkeypatch)
    assert not (home / "var" / "run").is_symlink()


def test_a_checkout_that_moved_to_a_short_path_has_its_sockets_itself(monkeypatch: pytest.MonkeyPatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        run_dir = Path(folder).resolve() / "var" / "run"
        run_dir.parent.mkdir()
        run_dir.symlink_to("/nowhere")
        assert environment_of(Path(folder), monkeypatch)["STOA_RUN_DIR"] == str(run_dir)
        assert run_dir.is_dir()
        assert not run_dir.is_symlink()
