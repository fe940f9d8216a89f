"""`.venv`: made once, with the packages of requirements/, torch first and alone."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

from steps.files import hash_of, locked, read_json
from steps.terminal import IS_TERMINAL, ROOT, Failed, run, step

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements"
STAMPS = VENV / "stoa-stamps.json"
TORCH = re.search(r"^torch==\S+", (REQUIREMENTS / "constraints.txt").read_text(), re.M).group()
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def prepare_venv(lists: Sequence[str], *, cuda: bool) -> None:
    """`.venv` with the packages of these requirement lists; quick when they are there."""
    with locked(REQUIREMENTS):
        stamp = hash_of([*sorted(REQUIREMENTS.glob("*.txt")), ROOT / "pyproject.toml"])
        stamps = read_json(STAMPS)
        if all(stamps.get(name) == stamp for name in lists):
            return
        if not (PYTHON.exists() and stamps):  # never made, or never finished
            with step("Making .venv"):
                run([sys.executable, "-m", "venv", VENV], what="Making .venv (on Debian: apt-get install python3-venv)")
                run([*PIP, "install", "--upgrade", "pip>=24.1"], what="Bringing a pip that shows its progress")
        install_torch(cuda=cuda)
        installed = set()
        for name in lists:
            arguments = ["-r", str(REQUIREMENTS / f"{name}.txt"), "-c", str(REQUIREMENTS / "constraints.txt")]
            pip_install(f"Installing what {name} needs", arguments)
            installed |= with_included(name)
        pip_install("Installing the stoa command", ["--no-deps", "--editable", str(ROOT)])
        STAMPS.write_text(json.dumps(stamps | dict.fromkeys(installed, stamp)))


def with_included(name: str) -> set[str]:
    """The requirements list of this name and those that it includes."""
    included = re.findall(r"^-r (\w+)\.txt", (REQUIREMENTS / f"{name}.txt").read_text(), re.M)
    return {name}.union(*map(with_included, included))


PIP = [PYTHON, "-m", "pip", "--disable-pip-version-check"]


def install_torch(*, cuda: bool) -> None:
    """First and alone: with it there, nothing pulls another build. docs/operator/install.md has the order."""
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode == 0:
        return
    given = os.environ.get("TORCH_SPEC"), os.environ.get("TORCH_INDEX_URL")
    if any(given):
        index = ["--index-url", given[1]] if given[1] else []
        pip_install("Installing torch as TORCH_SPEC and TORCH_INDEX_URL say", [*index, given[0] or TORCH])
    elif not cuda and pip_succeeds("Looking for a torch wheel on this machine", ["--no-index", "--no-deps", TORCH]):
        pass
    elif cuda or sys.platform == "darwin" or has_gpu():
        pip_install("Installing torch", [TORCH])
    elif not pip_succeeds("Installing torch for the CPU", ["--index-url", TORCH_CPU_INDEX, "--no-deps", TORCH]):
        pip = shlex.join(map(str, [*PIP, "install"]))
        raise Failed(
            f"{TORCH_CPU_INDEX} cannot be reached, and torch from PyPI is several gigabytes on Linux. Choose, and run "
            f"this again after it:\n\n    {pip} {TORCH} --index-url {TORCH_CPU_INDEX}\n    {pip} {TORCH}\n"
        )


def has_gpu() -> bool:
    return (
        shutil.which("nvidia-smi") is not None and subprocess.run(["nvidia-smi"], capture_output=True).returncode == 0
    )


def pip_environment() -> dict[str, str]:
    return os.environ | {"PIP_NO_INPUT": "1", "PIP_PROGRESS_BAR": "raw" if IS_TERMINAL else "off"}


def pip_install(what: str, arguments: Sequence[str]) -> None:
    """One line, with a bar while something large comes in; pip's own words only when it fails."""
    with step(what):
        code, output = run_pip(what, arguments)
        if code:
            raise Failed(f"pip could not do it: pip install {shlex.join(arguments)}\n\n{output}")


def pip_succeeds(what: str, arguments: Sequence[str]) -> bool:
    with step(what):
        return run_pip(what, ["--retries", "1", *arguments])[0] == 0


def run_pip(what: str, arguments: Sequence[str]) -> tuple[int, str]:
    lines, package = [], ""
    with subprocess.Popen(
        list(map(str, [*PIP, "install", *arguments])),
        cwd=ROOT,
        env=pip_environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as pip:
        for line in pip.stdout:
            if progress := re.match(r"Progress (\d+) of (\d+)", line):
                draw_bar(what, package, *map(int, progress.groups()))
                continue
            if downloading := re.match(r"\s*Downloading (\S+)", line):
                package = downloading[1].rpartition("/")[2].split("-")[0]
            if "find-links" not in line:  # pip warns of every configured folder that is not there
                lines.append(line)
    return pip.returncode, "".join(lines)


def draw_bar(what: str, package: str, done: int, total: int) -> None:
    """The step's line again, with the download; wiped when it is complete."""
    if total < 1_000_000:
        return
    bar = f"{package} {'#' * (20 * done // total):.<20} {done / 1e6:.0f} of {total / 1e6:.0f} MB"
    print(f"\r\033[K  {what} ... {bar if done < total else ''}", end="", flush=True)
