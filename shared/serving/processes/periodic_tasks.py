"""Periodic tasks of a server whose project has no workers: `settings.SERVER_PERIODIC_TASKS`."""

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
        task = import_string(path)
        threading.Thread(target=_run_periodically, args=(task, seconds), name=path, daemon=True).start()


def _run_periodically(task: Callable[[], None], seconds: float) -> None:
    pause = threading.Event()
    while not is_draining():
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
        pause.wait(max(next_at - time.monotonic(), min(seconds, MIN_PAUSE_SECONDS)))
