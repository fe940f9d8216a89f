"""Builds kernels.cpp for this machine, where a C++ compiler is there. A library is built once and kept on disk."""

import ctypes
import fcntl
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import threading
import time
from pathlib import Path

logger = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("kernels.cpp")
# Where libraries are kept, private to this user. Without it nothing is compiled.
FOLDER_VARIABLE = "ENGINE_COMPILED_DIR"
COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-std=c++20", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-pthread", "-w")
BUILD_SECONDS = 300
LOOK_SECONDS = 0.5


def compiled_kernels() -> ctypes.CDLL | None:
    """The library, if it was built; never waits for a compiler. One that does not load is taken away, so that the next
    host builds it anew."""
    target = _target()
    if target is None or not target.exists():
        return None
    try:
        return ctypes.CDLL(str(target))
    except OSError:
        logger.warning("engine_kernels_do_not_load")
        target.unlink(missing_ok=True)
        return None


def kernels_pending() -> bool:
    """Whether a library is not there and may still be built."""
    target = _target()
    return target is not None and not target.exists()


def wait_for_kernels() -> bool:
    """Waits until somebody has built the library; False when nobody did in twice the time that a build may take."""
    until = time.monotonic() + 2 * BUILD_SECONDS
    while kernels_pending():
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_SECONDS)
    return compiled_kernels() is not None


def build_kernels() -> bool:
    """Compiles unless that was done, which takes some ten seconds; whoever comes second waits for the first.

    False without a folder or a compiler, or when the compiler fails.
    """
    target = _target()
    if target is None:
        return False
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return target.exists() or _compile(target)


def build_in_background(folder: Path) -> None:
    """From now on this process and those that it starts keep libraries in `folder`, and one is built unless it is
    there. Models that are loaded before take it up when it is."""
    os.environ[FOLDER_VARIABLE] = str(folder.absolute())
    threading.Thread(target=build_kernels, daemon=True).start()


def _compile(target: Path) -> bool:
    partial = target.with_suffix(".partial")
    command = [str(_compiler()), *FLAGS, str(SOURCE), "-o", str(partial)]
    try:
        # Behind others, since it runs beside somebody's first requests; not last, or a busy machine never gets there.
        subprocess.run(["nice", "-n", "5", *command], check=True, capture_output=True, timeout=BUILD_SECONDS)  # noqa: S603, S607 (a fixed command)
    except (OSError, subprocess.SubprocessError):
        logger.warning("engine_kernels_not_compiled")
        return False
    with partial.open("rb") as library:
        os.fsync(library.fileno())  # half a library under its name, after a power cut, could end whoever loads it
    partial.rename(target)
    return True


def _target() -> Path | None:
    """Named after all that the result depends on."""
    folder, compiler = os.environ.get(FOLDER_VARIABLE), _compiler()
    if not folder or compiler is None:
        return None
    said = "\n".join([str(compiler), str(compiler.stat().st_mtime_ns), *FLAGS, platform.machine(), _processor()])
    return Path(folder) / f"kernels-{hashlib.sha256(SOURCE.read_bytes() + said.encode()).hexdigest()[:24]}.so"


def _compiler() -> Path | None:
    return next((Path(found) for name in COMPILERS if (found := shutil.which(name))), None)


def _processor() -> str:
    """What the processor can do; the same library does not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
