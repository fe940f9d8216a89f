"""The program that runs an external engine or a compiler."""

import signal
import subprocess
import sys

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
