"""The Keeper of the model host, as `serve` starts it."""

import subprocess
import threading
from pathlib import Path

import pytest
from pytest_django import Settings

from inference.engine import HostClient, ModelStatus
from inference.registry.processes import Keeper
from tests.inference.engine.processes import running_host


def test_a_look_that_fails_unexpectedly_is_not_the_last(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    looks: list[dict[str, ModelStatus]] = []
    looked_again = threading.Event()

    async def reconcile(statuses: dict[str, ModelStatus]) -> None:
        looks.append(statuses)
        if len(looks) == 1:
            raise LookupError("nobody thought of this")
        looked_again.set()

    monkeypatch.setattr("inference.registry.processes.LOOK_EVERY_S", 0.01)
    with running_host() as host:
        settings.RUN_DIR = host.run_dir
        keeper = Keeper(reconcile)
        keeper.start()
        assert looked_again.wait(60)
        keeper.end()
        assert host.process.poll() is None  # somebody else's host is left alone

    assert looks[:2] == [{}, {}]
    assert "models_not_looked_after" in caplog.text


@pytest.mark.parametrize("start_host", [True, False])
def test_a_host_is_started_unless_it_runs_apart(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start_host: bool
):
    settings.START_HOST, settings.RUN_DIR = start_host, tmp_path
    looks, started = threading.Semaphore(0), []

    def look() -> HostClient:
        looks.release()
        return HostClient(tmp_path)

    def start(run_dir: Path) -> subprocess.Popen[bytes]:
        started.append(run_dir)
        return subprocess.Popen(["sleep", "600"])

    monkeypatch.setattr("inference.registry.processes.LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("inference.registry.processes.host", look)
    monkeypatch.setattr("inference.registry.processes.start_host", start)
    keeper = Keeper(nothing)
    keeper.start()
    for _ in range(3):
        assert looks.acquire(timeout=60)
    keeper.end()
    assert started == [tmp_path] * start_host


async def nothing(statuses: dict[str, ModelStatus]) -> None: ...
