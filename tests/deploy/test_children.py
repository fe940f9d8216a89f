"""The supervisor with real children."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from steps.children import Supervisor
from steps.terminal import Failed

from tests.deploy.conftest import DEPLOY

SLEEPS = "import time; time.sleep(600)"
IGNORES_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); {SLEEPS}"
HAS_A_CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEPS!r}]); print('up'); {SLEEPS}"


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor of this process; the test's own signal handlers are put back."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    made = Supervisor(tmp_path)
    yield made
    made.end()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def python(script: str) -> list[str]:
    return [sys.executable, "-u", "-c", script]


def eventually(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_so()


def is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_child_that_ends_is_started_again(supervisor: Supervisor, tmp_path: Path):
    starts = tmp_path / "starts"
    script = f"import pathlib; p = pathlib.Path({str(starts)!r}); again = p.exists(); p.open('a').write('x')\n"
    script += f"if again: {SLEEPS}"
    child = supervisor.add("worker", python(script), dict(os.environ), signal.SIGKILL)
    supervisor.wait_until(lambda: starts.exists() and starts.read_text() == "xx", limit_s=20, what="Starting again")
    assert child.is_running()


def test_a_child_that_never_stays_up_is_a_failure_with_its_last_lines(supervisor: Supervisor):
    supervisor.add("worker", python("print('no database here'); exit(1)"), dict(os.environ), signal.SIGKILL)
    with pytest.raises(Failed, match=r"worker does not stay up.*\n\nno database here"):
        supervisor.wait_until(lambda: False, limit_s=60, what="Starting")


def test_what_takes_too_long_is_a_failure_with_last_lines(supervisor: Supervisor):
    child = supervisor.add("worker", python(f"print('waiting for it'); {SLEEPS}"), dict(os.environ), signal.SIGKILL)
    assert eventually(lambda: "waiting" in child.last_lines())
    with pytest.raises(Failed, match=r"Starting took more than 0 s.*\n\nworker:\nwaiting for it"):
        supervisor.wait_until(lambda: False, limit_s=0.2, what="Starting")


@pytest.mark.parametrize("script", [SLEEPS, IGNORES_SIGTERM, HAS_A_CHILD], ids=["plain", "stubborn", "parent"])
def test_nothing_is_left_after_the_end(supervisor: Supervisor, script: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Supervisor, "END_WITHIN_S", 0.5)
    child = supervisor.add("worker", python(script), dict(os.environ), signal.SIGKILL)
    assert script == SLEEPS or eventually(lambda: child.last_lines() == "up")
    assert child.process
    family = [psutil.Process(child.process.pid), *psutil.Process(child.process.pid).children(recursive=True)]
    supervisor.end()
    assert eventually(lambda: all(map(is_gone, family)))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_a_killed_supervisor_leaves_no_child(tmp_path: Path):
    script = (
        f"import os, pathlib, signal, sys, time; sys.path.insert(0, {str(DEPLOY)!r}); "
        "from steps.children import Supervisor; "
        f"child = Supervisor(pathlib.Path({str(tmp_path)!r})).add("
        f"'worker', [sys.executable, '-c', {SLEEPS!r}], dict(os.environ), signal.SIGKILL); "
        f"print(child.process.pid, flush=True); {SLEEPS}"
    )
    with subprocess.Popen(python(script), stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    assert eventually(lambda: is_gone(child))
