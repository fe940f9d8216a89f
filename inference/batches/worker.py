"""What a worker process does beside its tasks: it sweeps, and sees to it that a model host runs on its machine."""

import gc
import os
import secrets
import socket
import threading

import structlog
from django.db import DatabaseError, connection
from django.utils import timezone

from inference.batches.sweeping import sweep
from inference.config.celery import ending
from inference.registry.processes import Keeper
from inference.registry.reconciling import Reconciler

SWEEPS_EVERY_S = 3.0

logger = structlog.get_logger(__name__)


class Worker:
    """This process."""

    def __init__(self) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"  # not that of one that died
        self._keeper = Keeper(Reconciler().reconcile)
        self._thread = threading.Thread(target=self._sweep, name="batch-sweeper", daemon=True)

    def start(self) -> None:
        """Once the worker takes tasks."""
        gc.collect()
        gc.freeze()  # what was imported stays, and need not be looked through while requests wait
        self._keeper.start()
        self._thread.start()

    def end(self) -> None:
        """Once all tasks have ended: a host that is ours ends as well."""
        self._keeper.end()

    def _sweep(self) -> None:
        while not ending.wait(SWEEPS_EVERY_S):
            try:
                sweep(now=timezone.now())
            except DatabaseError as error:
                logger.warning("batches_not_swept", reason=type(error).__name__)
            finally:
                connection.close()


this_worker = Worker()
