"""The build of kernels.cpp for this machine, if it has a C++ compiler. Libraries are cached on disk."""

import contextlib
import ctypes
import fcntl
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from inference.engine import supervisor

logger = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("kernels.cpp")
# The environment variable of the folder of libraries, private to this user. Without it nothing is compiled.
FOLDER_VARIABLE = "ENGINE_COMPILED_DIR"
COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-std=c++20", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-pthread", "-w")
MAX_BUILD_SECONDS = 300
POLL_SECONDS = 0.5


def compiled_kernels() -> ctypes.CDLL | None:
    """Return the library, or None if it is not built. It does not wait.

    A library that does not load is deleted, so that the next host builds it again.
    """
    target = _target()
    if target is None or not target.exists():
        return None
    try:
        return ctypes.CDLL(str(target))
    except OSError:
        logger.warning("engine.kernels_not_loadable")
        target.unlink(missing_ok=True)
        return None


def kernels_built() -> bool:
    """Return whether the library is built."""
    target = _target()
    return target is not None and target.exists()


def kernels_pending() -> bool:
    """Return whether the library is not built yet and may be."""
    target = _target()
    return target is not None and not target.exists()


def wait_for_kernels() -> bool:
    """Wait until the library is built. Return False if it is not within twice the time limit of a build."""
    deadline = time.monotonic() + 2 * MAX_BUILD_SECONDS
    while kernels_pending():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return compiled_kernels() is not None


def build_kernels() -> bool:
    """Build the library unless it exists, in some ten seconds. Concurrent callers wait for the first one.

    Return False without a folder or a compiler, or if the compiler fails.
    """
    target = _target()
    if target is None:
        return False
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return target.exists() or _compile(target)


def build_in_background(folder: Path) -> None:
    """Set the folder of libraries for this process and its children, and build the library in a thread.

    Models that are loaded before it is built switch to it later.
    """
    os.environ[FOLDER_VARIABLE] = str(folder.absolute())
    threading.Thread(target=build_kernels, daemon=True).start()


def _compile(target: Path) -> bool:
    partial = target.with_suffix(".partial")
    # A low priority, because requests run meanwhile; not the lowest, with which it never ends on a busy machine.
    command = ["nice", "-n", "5", str(_compiler()), *FLAGS, str(SOURCE), "-o", str(partial)]
    is_built, quiet = False, subprocess.DEVNULL
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        # The supervisor ends the compiler and its children when this process ends, or stdin is closed below.
        supervised = [sys.executable, "-I", "-S", supervisor.__file__, *command]
        with subprocess.Popen(supervised, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet) as compiler:  # noqa: S603
            is_built = compiler.wait(MAX_BUILD_SECONDS) == 0
    if not is_built:
        logger.warning("engine.kernel_build_failed")
        return False
    with partial.open("rb") as library:
        os.fsync(library.fileno())  # after a power cut, a truncated library could crash its process
    partial.rename(target)
    return True


def _target() -> Path | None:
    """Return the path of the library. Its name is a hash of everything that the build depends on."""
    folder, compiler = os.environ.get(FOLDER_VARIABLE), _compiler()
    if not folder or compiler is None:
        return None
    inputs = "\n".join([str(compiler), str(compiler.stat().st_mtime_ns), *FLAGS, platform.machine(), _processor()])
    return Path(folder) / f"kernels-{hashlib.sha256(SOURCE.read_bytes() + inputs.encode()).hexdigest()[:24]}.so"


def _compiler() -> Path | None:
    return next((Path(found) for name in COMPILERS if (found := shutil.which(name))), None)


def _processor() -> str:
    """Return the processor's features: a library runs only on processors that have them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
