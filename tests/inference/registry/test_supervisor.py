"""The supervisor of the model host, as `serve` starts it."""

import subprocess
import threading
from pathlib import Path

import pytest
from pytest_django import Settings

from inference.engine import HostClient, ModelStatus
from inference.registry.supervisor import HostSupervisor
from tests.inference.engine.processes import running_host

pytestmark = pytest.mark.no_database


def test_the_supervisor_survives_an_unexpected_error(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    checks: list[dict[str, ModelStatus]] = []
    checked_again = threading.Event()

    async def reconcile(statuses: dict[str, ModelStatus]) -> None:
        checks.append(statuses)
        if len(checks) == 1:
            raise LookupError("unexpected")
        checked_again.set()

    monkeypatch.setattr("inference.registry.supervisor.CHECK_INTERVAL_SECONDS", 0.01)
    with running_host() as host:
        settings.RUN_DIR = host.run_dir
        supervisor = HostSupervisor(reconcile)
        supervisor.start()
        assert checked_again.wait(60)
        supervisor.stop()
        assert host.process.poll() is None  # another process's host keeps running

    assert checks[:2] == [{}, {}]
    assert "host_check_failed" in caplog.text


@pytest.mark.parametrize("start_host", [True, False])
def test_the_supervisor_starts_a_host_unless_it_is_managed_elsewhere(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start_host: bool
):
    settings.START_HOST, settings.RUN_DIR = start_host, tmp_path
    checks, started = threading.Semaphore(0), []

    def check() -> HostClient:
        checks.release()
        return HostClient(tmp_path)

    def start(run_dir: Path) -> subprocess.Popen[bytes]:
        started.append(run_dir)
        return subprocess.Popen(["sleep", "600"])

    monkeypatch.setattr("inference.registry.supervisor.CHECK_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr("inference.registry.supervisor.host", check)
    monkeypatch.setattr("inference.registry.supervisor.start_host", start)
    supervisor = HostSupervisor(do_nothing)
    supervisor.start()
    for _ in range(3):
        assert checks.acquire(timeout=60)
    supervisor.stop()
    assert started == [tmp_path] * start_host


async def do_nothing(statuses: dict[str, ModelStatus]) -> None: ...
