"""Threads of a worker process beside its tasks: the sweeper, a batch taken without a message, and the model host."""

import gc
import os
import secrets
import socket
import threading

import structlog
from django.db import connection
from django.utils import timezone

from inference.batches.dispatch import consume_message
from inference.batches.worker.runner import run_batch
from inference.batches.worker.sweeper import sweep
from inference.config.celery import ending
from inference.registry.reconciler import ModelReconciler
from inference.registry.supervisor import HostSupervisor
from shared.serving.processes.periodic_tasks import start_periodic_task

SWEEP_INTERVAL_SECONDS = 3.0
SHUTDOWN_TIMEOUT_SECONDS = 5.0

logger = structlog.get_logger(__name__)


class BatchWorker:
    """The batch worker of this process; `name` is unique over all processes, also those that died."""

    def __init__(self) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._host_supervisor = HostSupervisor(ModelReconciler().reconcile)
        self._batch_thread = threading.Thread()

    def start(self) -> None:
        """Start the threads, once the worker receives tasks."""
        gc.collect()
        gc.freeze()  # imported modules stay: later collections need not traverse them while requests wait
        self._host_supervisor.start()
        start_periodic_task(self._sweep, SWEEP_INTERVAL_SECONDS, name="batch-sweeper", ending=ending)

    def stop(self) -> None:
        """Stop the threads and a model host that this process started, once all tasks have ended."""
        if self._batch_thread.is_alive():
            self._batch_thread.join(SHUTDOWN_TIMEOUT_SECONDS)
        self._host_supervisor.stop()

    def _sweep(self) -> None:
        sweep(now=timezone.now(), take=self._take)

    def _take(self, batch_pk: int) -> bool:
        """Work on a batch without a message, in a thread beside the tasks. Return False if that thread is busy."""
        if self._batch_thread.is_alive():
            return False
        logger.warning("batch_taken", batch=batch_pk)
        self._batch_thread = threading.Thread(target=self._run, args=(batch_pk,), name="batch-run", daemon=True)
        self._batch_thread.start()
        return True

    def _run(self, batch_pk: int) -> None:
        try:
            consume_message(batch_pk=batch_pk)  # a late message is then a duplicate
            run_batch(batch_pk=batch_pk, worker=self.name, ending=ending)
        except Exception:  # the sweeper takes the batch again
            logger.exception("batch_run_failed", batch=batch_pk)
        finally:
            connection.close()


worker = BatchWorker()
