"""What a worker process does beside its tasks: it sweeps, takes the batches that no message brings, and sees to it that
a model host runs on its machine."""

import gc
import os
import secrets
import socket
import threading

import structlog
from django.db import DatabaseError, connection
from django.utils import timezone

from inference.batches.dispatch import take_message
from inference.batches.runner import run_batch
from inference.batches.sweeping import sweep
from inference.config.celery import ending
from inference.registry.processes import Keeper
from inference.registry.reconciling import Reconciler

SWEEPS_EVERY_S = 3.0
HANDS_BACK_WITHIN_S = 5.0

logger = structlog.get_logger(__name__)


class Worker:
    """This process."""

    def __init__(self) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"  # not that of one that died
        self._keeper = Keeper(Reconciler().reconcile)
        self._thread = threading.Thread(target=self._sweep, name="batch-sweeper", daemon=True)
        self._turn = threading.Thread()

    def start(self) -> None:
        """Once the worker takes tasks."""
        gc.collect()
        gc.freeze()  # what was imported stays, and need not be looked through while requests wait
        self._keeper.start()
        self._thread.start()

    def end(self) -> None:
        """Once all tasks have ended: a host that is ours ends as well."""
        if self._turn.is_alive():
            self._turn.join(HANDS_BACK_WITHIN_S)
        self._keeper.end()

    def _sweep(self) -> None:
        while not ending.wait(SWEEPS_EVERY_S):
            try:
                sweep(now=timezone.now(), take=self._take)
            except DatabaseError as error:
                logger.warning("batches_not_swept", reason=type(error).__name__)
            except Exception:  # of this round; if the sweeper ended, so would every batch that something happens to
                logger.exception("batches_not_swept")
            finally:
                connection.close()

    def _take(self, batch_pk: int) -> bool:
        """A turn that no message brings, in a thread beside the tasks. False: the last one goes on."""
        if self._turn.is_alive():
            return False
        logger.warning("batch_taken_without_message", batch=batch_pk)
        self._turn = threading.Thread(target=self._run, args=(batch_pk,), name="batch-turn", daemon=True)
        self._turn.start()
        return True

    def _run(self, batch_pk: int) -> None:
        try:
            take_message(batch_pk=batch_pk)  # so that it counts no more, should it come
            run_batch(batch_pk=batch_pk, worker=self.name, ending=ending)
        except Exception:  # as of a task
            logger.exception("batch_turn_failed", batch=batch_pk)
        finally:
            connection.close()


this_worker = Worker()
