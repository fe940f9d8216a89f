"""Which torch is installed, and how: with a python that only writes down what pip was asked for."""

from pathlib import Path

import pytest
from steps import packages
from steps.terminal import Failed

FAKE = """#!/bin/bash
echo "$@" >> {calls}
case "$*" in {refused}) echo "ERROR: no such thing" ; exit 1 ;; esac
"""


class FakePython:
    """Stands in for .venv/bin/python."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path, self._calls = folder / "python", folder / "calls"
        self._calls.touch()
        monkeypatch.setattr(packages, "PYTHON", self._path)
        monkeypatch.setattr(packages, "PIP", [self._path, "-m", "pip"])
        monkeypatch.setattr(packages, "has_gpu", lambda: False)
        monkeypatch.setattr(packages.sys, "platform", "linux")
        for name in ("TORCH_SPEC", "TORCH_INDEX_URL"):
            monkeypatch.delenv(name, raising=False)

    def refuses(self, *patterns: str) -> None:
        self._path.write_text(FAKE.format(calls=self._calls, refused=" | ".join(patterns)))
        self._path.chmod(0o700)

    def asked(self) -> list[str]:
        """The arguments of each `pip install`."""
        lines = self._calls.read_text().splitlines()
        return [line.removeprefix("-m pip install ") for line in lines if "pip install" in line]


NOT_THERE = "'-c import torch'"
NO_WHEEL = "*--no-index*"
TORCH = packages.TORCH


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePython:
    return FakePython(tmp_path, monkeypatch)


def test_a_torch_that_is_there_is_left_alone(python: FakePython):
    python.refuses("nothing")
    packages.install_torch(cuda=False)
    assert python.asked() == []


def test_a_local_wheel_comes_first(python: FakePython):
    python.refuses(NOT_THERE)
    packages.install_torch(cuda=False)
    assert python.asked() == [f"--retries 1 --no-index --no-deps {TORCH}"]


def test_without_a_wheel_and_a_gpu_the_cpu_build_is_taken(python: FakePython):
    python.refuses(NOT_THERE, NO_WHEEL)
    packages.install_torch(cuda=False)
    assert python.asked()[1:] == [f"--retries 1 --index-url https://download.pytorch.org/whl/cpu --no-deps {TORCH}"]


def test_without_the_cpu_index_it_stops_and_names_the_two_choices(python: FakePython):
    python.refuses(NOT_THERE, NO_WHEEL, "*download.pytorch.org*")
    with pytest.raises(Failed) as failure:
        packages.install_torch(cuda=False)
    commands = [line.strip() for line in str(failure.value).splitlines() if "pip install" in line]
    assert [command.partition("pip install ")[2] for command in commands] == [
        f"{TORCH} --index-url https://download.pytorch.org/whl/cpu",
        TORCH,
    ]
    assert len(python.asked()) == 2


def test_cuda_is_the_build_of_pypi(python: FakePython):
    python.refuses(NOT_THERE)
    packages.install_torch(cuda=True)
    assert python.asked() == [TORCH]


def test_a_gpu_is_reason_enough(python: FakePython, monkeypatch: pytest.MonkeyPatch):
    python.refuses(NOT_THERE, NO_WHEEL)
    monkeypatch.setattr(packages, "has_gpu", lambda: True)
    packages.install_torch(cuda=False)
    assert python.asked()[1:] == [TORCH]


def test_what_the_environment_says_goes_before_all(python: FakePython, monkeypatch: pytest.MonkeyPatch):
    python.refuses(NOT_THERE)
    monkeypatch.setenv("TORCH_SPEC", "torch==2.12.0")
    monkeypatch.setenv("TORCH_INDEX_URL", "https://wheels.example/simple")
    packages.install_torch(cuda=False)
    assert python.asked() == ["--index-url https://wheels.example/simple torch==2.12.0"]


def test_what_pip_says_is_shown_whole_when_it_fails(python: FakePython):
    python.refuses("*")
    with pytest.raises(Failed, match="ERROR: no such thing"):
        packages.pip_install("Installing something", ["something"])


def test_a_list_that_includes_others_installs_them_too():
    assert packages.with_included("dev") >= {"dev", "test", "commerce", "inference", "base"}
    assert packages.with_included("commerce") == {"commerce", "base"}
