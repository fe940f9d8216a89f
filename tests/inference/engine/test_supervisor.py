"""The program that runs an external engine or a compiler."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from inference.engine import supervisor

STARTS_ANOTHER_GROUP = "setsid sleep 60 & sleep 60"


@pytest.mark.parametrize(
    ("written", "number"),
    [(b"", signal.SIGKILL), (supervisor.TERMINATE, signal.SIGTERM)],
    ids=["killed", "asked to end"],
)
def test_the_exit_status_tells_that_the_command_was_ended(written: bytes, number: signal.Signals) -> None:
    for _ in range(10):
        command = [sys.executable, "-I", "-S", supervisor.__file__, "sh", "-c", STARTS_ANOTHER_GROUP]
        started = subprocess.Popen(command, stdin=subprocess.PIPE)
        started.communicate(written, timeout=30)
        assert started.returncode == 128 + number


def test_a_process_that_ends_while_its_children_are_sought_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setattr(Path, "is_dir", lambda path: True)  # as it was a moment before
    assert supervisor.descendants(ended.pid) == []


def test_a_signal_that_ends_the_group_of_its_starter_leaves_no_process() -> None:
    """As at the end of the demo, while kernels were compiled: the compiler's child went on for seconds."""
    command = [sys.executable, "-I", "-S", supervisor.__file__, "sh", "-c", "sleep 60 & sleep 60; true"]
    script = f"import subprocess; subprocess.Popen({command!r}, stdin=subprocess.PIPE).wait()"
    starter = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    family: list[psutil.Process] = []
    while sum(one.name() == "sleep" for one in family) < 2:
        family = psutil.Process(starter.pid).children(recursive=True)
    os.killpg(starter.pid, signal.SIGKILL)
    starter.wait()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
