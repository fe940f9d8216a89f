"""What a server does itself from time to time, where a project has no workers that would: `settings.SERVER_ROUNDS`."""

import threading
from collections.abc import Callable, Mapping

import structlog
from django.db import DatabaseError, connection
from django.utils.module_loading import import_string

from shared.observability.health import is_draining

logger = structlog.get_logger(__name__)


def start_rounds(rounds: Mapping[str, float]) -> None:
    """rounds: the names of tasks, and every how many seconds. Each has a thread, which ends with the process."""
    for name, seconds in rounds.items():
        threading.Thread(target=_go_round, args=(import_string(name), seconds), name=name, daemon=True).start()


def _go_round(task: Callable[[], None], seconds: float) -> None:
    pause = threading.Event()
    while not is_draining():
        try:
            task()
        except DatabaseError as error:  # it is locked, full or away
            logger.warning(
                "round_failed", task=threading.current_thread().name, reason=type(error.__cause__ or error).__name__
            )
        except Exception:  # of this round: the next one may be luckier
            logger.exception("round_failed", task=threading.current_thread().name)
        finally:
            connection.close()
        pause.wait(seconds)
