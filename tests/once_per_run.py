"""Results of a test run that its first process makes; the others wait for them."""

import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER_VARIABLE = "TESTS_FOLDER"  # in the environment of all processes of a run


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="stoa-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(FOLDER_VARIABLE), ignore_errors=True)


@functools.cache
def once_per_run(make: Callable[[Path], str]) -> tuple[Path, str]:
    """Return a folder of this run and what `make` returned, which was called once with it."""
    folder = Path(os.environ.get(FOLDER_VARIABLE) or _folder_of_process().name) / make.__name__
    result = folder.with_suffix(".result")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a call that failed
            folder.mkdir()
            result.write_text(make(folder))
    return folder, result.read_text()


@functools.cache
def _folder_of_process() -> tempfile.TemporaryDirectory[str]:
    """Return the folder of benchmarks, which are no test run."""
    return tempfile.TemporaryDirectory(prefix="stoa-tests-")
