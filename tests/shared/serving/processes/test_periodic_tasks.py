"""Periodic tasks of a server without workers."""

import threading
import time

import pytest

from shared.serving.processes import periodic_tasks

INTERVAL_S = 2.0
RUN_S = 1.0
STARTS = 3
started_at: list[float] = []
finished = threading.Event()


def work() -> None:
    started_at.append(time.monotonic())
    time.sleep(RUN_S)
    if len(started_at) == STARTS:
        finished.set()


@pytest.mark.django_db(transaction=True)
def test_a_task_starts_at_its_interval_however_long_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic_tasks, "is_draining", finished.is_set)
    periodic_tasks.start_periodic_tasks({f"{__name__}.work": INTERVAL_S})
    assert finished.wait(30)
    mean_s = (started_at[-1] - started_at[0]) / (STARTS - 1)
    assert INTERVAL_S <= mean_s < INTERVAL_S + RUN_S / 2
