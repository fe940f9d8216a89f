"""The Keeper of the model host, as `serve` starts it."""

import threading

import pytest
from pytest_django import Settings

from inference.engine import ModelStatus
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
