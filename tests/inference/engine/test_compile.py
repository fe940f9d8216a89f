"""Kernels are compiled once a machine, and quietly not where that cannot be done."""

import ctypes
from pathlib import Path

import pytest

from inference.engine.compile import FOLDER_VARIABLE, build_in_background, build_kernels, compiled_kernels


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "compiled"))
    return tmp_path / "compiled"


def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts a compiler that is this shell script first."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    file = tmp_path / "bin" / "c++"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")


def test_without_a_folder_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    assert not build_kernels()
    assert compiled_kernels() is None


def test_without_a_compiler_nothing_is_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert not build_kernels()
    assert compiled_kernels() is None


def test_a_compiler_that_fails_leaves_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, monkeypatch, "echo half > $(echo $@ | sed 's/.*-o //'); exit 1")
    assert not build_kernels()
    assert compiled_kernels() is None
    assert list(folder.glob("*.so")) == []


def test_a_library_that_does_not_load_is_not_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, "echo nonsense > $(echo $@ | sed 's/.*-o //')")
    assert build_kernels()
    assert compiled_kernels() is None


def test_what_was_built_is_not_built_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, monkeypatch, f"echo once >> {tmp_path}/builds; touch $(echo $@ | sed 's/.*-o //')")
    assert build_kernels()
    assert build_kernels()
    assert (tmp_path / "builds").read_text() == "once\n"


def test_a_host_builds_in_the_background_for_the_models_that_it_will_load(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, "touch $(echo $@ | sed 's/.*-o //')")
    build_in_background(folder)
    assert build_kernels()
    assert len(list(folder.glob("*.so"))) == 1


def test_another_compiler_makes_another_library(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for comment in ("# one", "# two"):
        compiler(tmp_path, monkeypatch, f"{comment}\ntouch $(echo $@ | sed 's/.*-o //')")
        assert build_kernels()
    assert len(list(folder.glob("*.so"))) == 2


def test_the_library_knows_the_registers_of_this_machine(kernels: ctypes.CDLL) -> None:
    assert kernels.vector_width() in (8, 16)
