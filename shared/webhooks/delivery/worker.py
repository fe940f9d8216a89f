"""The delivery thread of a Celery worker. It needs no broker: workers poll the outbox and share what is due."""

from threading import Event, Thread

import structlog
from django.db import connection

from shared.webhooks.delivery.outbox import deliver_due

POLL_INTERVAL_SECONDS = 0.5
SHUTDOWN_TIMEOUT_SECONDS = 5.0

logger = structlog.get_logger(__name__)


class DeliveryWorker:
    """Thread that sends due deliveries until `ending` is set, and then releases unfinished ones."""

    def __init__(self, ending: Event) -> None:
        self._ending = ending
        self._thread = Thread(target=self._run, name="webhook-delivery", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread to end, SHUTDOWN_TIMEOUT_SECONDS at most."""
        self._thread.join(SHUTDOWN_TIMEOUT_SECONDS)

    def _run(self) -> None:
        while not self._ending.wait(POLL_INTERVAL_SECONDS):
            try:
                deliver_due(stopping=self._ending)
            except Exception:  # the database may be unavailable; the next poll tries again
                logger.exception("webhook_delivery_failed")
            finally:
                connection.close()
