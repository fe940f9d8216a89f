"""Periodic tasks in threads: of workers, and of a server whose project has none (`settings.SERVER_PERIODIC_TASKS`)."""

import threading
import time
from collections.abc import Callable, Mapping

import structlog
from django.db import DatabaseError, connection
from django.utils.module_loading import import_string

from shared.observability.health import is_draining

MIN_PAUSE_SECONDS = 1.0  # after a run that took as long as the interval

logger = structlog.get_logger(__name__)


def start_periodic_tasks(tasks: Mapping[str, float]) -> None:
    """Run each task (a dotted path) in a thread of its own, every so many seconds, until the process ends."""
    for path, seconds in tasks.items():
        start_periodic_task(import_string(path), seconds, name=path)


def start_periodic_task(
    task: Callable[[], object], seconds: float, *, name: str, ending: threading.Event | None = None
) -> threading.Thread:
    """Run the task in a thread at this interval, whatever it raises, until `ending` is set or the process ends."""
    arguments = (task, seconds, ending or threading.Event())
    thread = threading.Thread(target=_run_periodically, args=arguments, name=name, daemon=True)
    thread.start()
    return thread


def _run_periodically(task: Callable[[], object], seconds: float, ending: threading.Event) -> None:
    while not (is_draining() or ending.is_set()):
        next_at = time.monotonic() + seconds
        try:
            task()
        except DatabaseError as error:  # locked, full or unreachable
            reason = type(error.__cause__ or error).__name__
            logger.warning("periodic_task_failed", task=threading.current_thread().name, reason=reason)
        except Exception:  # the next run may succeed
            logger.exception("periodic_task_failed", task=threading.current_thread().name)
        finally:
            connection.close()
        ending.wait(max(next_at - time.monotonic(), min(seconds, MIN_PAUSE_SECONDS)))
