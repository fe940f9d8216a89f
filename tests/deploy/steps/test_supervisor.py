"""The supervisor, with real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from steps.supervisor import Supervisor
from steps.terminal import StepError

from tests.deploy.conftest import DEPLOY

SLEEPS = "import time; time.sleep(600)"
IGNORES_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); {SLEEPS}"
HAS_A_CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEPS!r}]); print('up'); {SLEEPS}"


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor in this process; the previous signal handlers are restored."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    supervisor = Supervisor(tmp_path)
    yield supervisor
    supervisor.stop()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def python(script: str) -> list[str]:
    return [sys.executable, "-u", "-c", script]


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_an_exited_process_is_restarted(supervisor: Supervisor, tmp_path: Path):
    starts = tmp_path / "starts"
    script = f"import pathlib; p = pathlib.Path({str(starts)!r}); again = p.exists(); p.open('a').write('x')\n"
    script += f"if again: {SLEEPS}"
    child = supervisor.add("worker", python(script), dict(os.environ), signal.SIGKILL)
    supervisor.wait_until(lambda: starts.exists() and starts.read_text() == "xx", timeout_seconds=20, what="Restarting")
    assert child.is_running()


def test_a_process_that_keeps_exiting_fails_with_its_last_lines(supervisor: Supervisor):
    supervisor.add("worker", python("print('no database here'); exit(1)"), dict(os.environ), signal.SIGKILL)
    with pytest.raises(StepError, match=r"worker keeps exiting.*\n\nno database here"):
        supervisor.wait_until(lambda: False, timeout_seconds=60, what="Starting")


def test_a_timeout_fails_with_the_last_lines_of_each_process(supervisor: Supervisor):
    child = supervisor.add("worker", python(f"print('waiting for it'); {SLEEPS}"), dict(os.environ), signal.SIGKILL)
    assert eventually(lambda: "waiting" in child.last_lines())
    with pytest.raises(StepError, match=r"Starting took more than 0 s.*\n\nworker:\nwaiting for it"):
        supervisor.wait_until(lambda: False, timeout_seconds=0.2, what="Starting")


@pytest.mark.parametrize(
    "script", [SLEEPS, IGNORES_SIGTERM, HAS_A_CHILD], ids=["plain", "ignores-sigterm", "has-a-child"]
)
def test_stop_ends_the_whole_process_group(supervisor: Supervisor, script: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Supervisor, "STOP_TIMEOUT_SECONDS", 0.5)
    child = supervisor.add("worker", python(script), dict(os.environ), signal.SIGKILL)
    assert script == SLEEPS or eventually(lambda: child.last_lines() == "up")
    assert child.process
    family = [psutil.Process(child.process.pid), *psutil.Process(child.process.pid).children(recursive=True)]
    supervisor.stop()
    assert eventually(lambda: all(map(has_ended, family)))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a child whose parent was killed")
def test_processes_end_with_a_killed_supervisor(tmp_path: Path):
    script = (
        f"import os, pathlib, signal, sys, time; sys.path.insert(0, {str(DEPLOY)!r}); "
        "from steps.supervisor import Supervisor; "
        f"child = Supervisor(pathlib.Path({str(tmp_path)!r})).add("
        f"'worker', [sys.executable, '-c', {SLEEPS!r}], dict(os.environ), signal.SIGKILL); "
        f"print(child.process.pid, flush=True); {SLEEPS}"
    )
    with subprocess.Popen(python(script), stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    assert eventually(lambda: has_ended(child))
