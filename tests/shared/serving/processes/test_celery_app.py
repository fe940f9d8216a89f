"""The log of a worker."""

import logging

import pytest
from celery import Celery
from celery.app.trace import build_tracer

from shared.serving.processes.celery_app import create_celery_app


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Celery:
    for name in ("celery.worker.strategy", "celery.app.trace"):
        monkeypatch.setattr(logging.getLogger(name), "filters", [])
    return create_celery_app("a_project", periodic_tasks={"tick": 5.0, "broken_tick": 5.0})


def test_the_log_has_tasks_and_failures_but_no_runs_of_periodic_tasks(app: Celery, caplog: pytest.LogCaptureFixture):
    def succeed() -> None: ...

    def fail() -> None:
        raise ValueError

    tasks = [app.task(succeed, name="tick"), app.task(succeed, name="job"), app.task(fail, name="broken_tick")]
    with caplog.at_level(logging.INFO):
        for task in tasks:
            build_tracer(task.name, task, app=app)("an-id", (), {}, None)
    assert [(record.data["name"], record.levelname) for record in caplog.records if hasattr(record, "data")] == [
        ("job", "INFO"),
        ("broken_tick", "ERROR"),
    ]
