"""Installed engines: each in a folder of its own, with a virtual environment or a server that is compiled there."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from inference.engine.external.kinds import ENGINE_KINDS, STOA, EngineKind, engine_kind
from inference.engine.processors import gpu_devices

RECORD = "installed.json"  # written last: a folder without it is not complete
LLAMA_CPP = "llama.cpp"
# `deploy/run` takes torch from it too. PyPI has no builds with a local version, and vLLM's for the CPU requires one.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
OMITTED = {"vllm": ("torchvision", "torchaudio", "torchcodec")}  # these do not import beside a torch for the CPU

# What builds packages gets these variables alone, so no secret of ours.
PASSED_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "PIP_",
    "SSL_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "CC",
    "CXX",
    "CMAKE_",
)

Echo = Callable[[str], None]


class InstallationFailed(Exception):
    """A step that failed, with its command's last lines."""


class EngineInstallation(msgspec.Struct, frozen=True):
    """An engine that Stoa knows. version: None for our own. installed: whether a model can be loaded with it here.

    options: what `engine_options` may name, with a description each.
    """

    name: str
    version: str | None
    installed: bool
    format: str
    options: dict[str, str]


def list_engines(folder: Path) -> list[EngineInstallation]:
    """Return all engines, ours first. folder: of the installed ones."""
    ours = EngineInstallation(STOA, None, True, "safetensors, GGUF", {})
    return [ours, *(_describe(kind, folder) for kind in ENGINE_KINDS.values())]


def installed_folder(engines: Path, kind: EngineKind) -> Path:
    """Return the folder of an engine's version."""
    return engines / f"{kind.name}-{kind.version}"


def is_installed(engines: Path, kind: EngineKind) -> bool:
    """Return whether the engine is installed to its end."""
    return (installed_folder(engines, kind) / RECORD).exists()


def gpu_share(engines: Path, kind: EngineKind, gpu_layers: int, layers: int) -> float:
    """Return the part of weights and cache that an engine puts on GPUs, from 0 to 1.

    The builds that Stoa installs compute on the CPU. One that an operator installed is taken for one for the GPU.
    layers: of the model, 0 if unknown.
    """
    if kind.device == "cuda":
        return 1.0
    if is_installed_by_stoa(engines, kind):
        return 0.0
    return layer_share(gpu_layers, layers) if kind.name == LLAMA_CPP else float(bool(gpu_devices()))


def layer_share(gpu_layers: int, layers: int) -> float:
    """Return the part of a model that so many of its layers are, from 0 to 1. layers: 0 if unknown."""
    return min(1.0, gpu_layers / max(1, layers))


def is_installed_by_stoa(engines: Path, kind: EngineKind) -> bool:
    """Return whether `install_engine` made the folder, whose record then names its packages."""
    try:
        return b'"packages"' in (installed_folder(engines, kind) / RECORD).read_bytes()
    except OSError:
        return False


def install_engine(name: str, engines: Path, echo: Echo) -> Path:
    """Install an engine and return its folder. One that is installed is left as it is.

    Raise InvalidRequest for an unknown name, or InstallationFailed.
    """
    kind = engine_kind(name)
    folder = installed_folder(engines, kind).absolute()
    if is_installed(engines, kind):
        echo(f"{name} {kind.version} is installed in {folder}.")
        return folder
    if not kind.packages:
        raise InstallationFailed(
            f"Stoa has tested no version of {name} and installs none. Install one by hand: make a virtual environment "
            f"in {folder}, install {name} there, and write an empty {RECORD} into it."
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    (folder / "cache").mkdir()
    echo(f"Installing {name} {kind.version} in {folder}. This takes minutes.")
    _run([sys.executable, "-m", "venv", str(folder)], echo)
    if name == LLAMA_CPP:
        _compile_llama_cpp(folder, kind, echo)
    else:
        _install_torch(folder, kind, echo)
        _run([*_pip(folder), "install", *kind.packages], echo)
        if omitted := OMITTED.get(name):
            _run([*_pip(folder), "uninstall", "--yes", *omitted], echo)
    (folder / RECORD).write_text(json.dumps({"engine": name, "version": kind.version, "packages": kind.packages}))
    return folder


def _describe(kind: EngineKind, engines: Path) -> EngineInstallation:
    options = {name: option.description for name, option in kind.options.items()}
    return EngineInstallation(kind.name, kind.version, is_installed(engines, kind), kind.format, options)


def _install_torch(folder: Path, kind: EngineKind, echo: Echo) -> None:
    """Install an engine's torch, in its build for the CPU where there is one.

    Alone, so that PyTorch's index is asked for nothing else: pip would ask both indexes for every package.
    """
    for torch in (package for package in kind.packages if package.startswith("torch==")):
        build = f"{torch}+cpu" if sys.platform == "linux" else torch
        _run([*_pip(folder), "install", "--no-deps", "--extra-index-url", TORCH_CPU_INDEX, build], echo)


def _compile_llama_cpp(folder: Path, kind: EngineKind, echo: Echo) -> None:
    """Compile llama.cpp's server from the source in the package of its Python bindings."""
    if not (shutil.which("c++") or shutil.which("g++")):
        raise InstallationFailed("A C++ compiler is missing. Install g++ (Debian and Ubuntu: apt install g++).")
    source, build = folder / "source", folder / "build"
    _run([*_pip(folder), "install", "cmake", "ninja"], echo)
    _run([*_pip(folder), "download", "--no-deps", "--no-binary", ":all:", "--dest", str(source), *kind.packages], echo)
    (archive,) = source.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(source, filter="data")
    (project,) = source.glob("*/vendor/llama.cpp")
    parts = ("BUILD_TESTS", "BUILD_EXAMPLES", "USE_PREBUILT_UI", "OPENSSL")
    off = [f"-D{name}=OFF" for name in ("BUILD_SHARED_LIBS", *(f"LLAMA_{part}" for part in parts))]
    tools = folder / "bin"
    _run([str(tools / "cmake"), "-S", str(project), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
          f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}", *off], echo)  # fmt: skip
    _run([str(tools / "cmake"), "--build", str(build), "--target", "llama-server"], echo)
    shutil.copy2(build / "bin" / "llama-server", tools / "llama-server")
    for leftover in (source, build):
        shutil.rmtree(leftover)


def _pip(folder: Path) -> list[str]:
    return [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]


def _run(command: Sequence[str], echo: Echo) -> None:
    echo("$ " + " ".join(command))
    environment = {name: value for name, value in os.environ.items() if name.upper().startswith(PASSED_VARIABLES)}
    finished = subprocess.run(  # noqa: S603
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if finished.returncode:
        tail = "\n".join(finished.stdout.splitlines()[-15:])
        raise InstallationFailed(f"{command[0]} ended with status {finished.returncode}:\n{tail}")
