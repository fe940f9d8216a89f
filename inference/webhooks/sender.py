"""The thread of a worker that sends webhooks for as long as the worker lives. It needs no broker: the rows are there.

Each worker has one, and they share what is due.
"""

from threading import Event, Thread

import structlog
from django.db import connection

from inference.webhooks.delivery import deliver_due

LOOKS_EVERY_S = 0.5
ENDS_WITHIN_S = 5.0

logger = structlog.get_logger(__name__)


class Sender:
    """Sends from `start` until `ending` is set. What is on its way then is given back."""

    def __init__(self, ending: Event) -> None:
        self._ending = ending
        self._thread = Thread(target=self._send, name="webhook-sender", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        """Wait until it has ended, but not for ever."""
        self._thread.join(ENDS_WITHIN_S)

    def _send(self) -> None:
        while not self._ending.wait(LOOKS_EVERY_S):
            try:
                deliver_due(stopping=self._ending)
            except Exception:  # a database that is away, or whatever else: the next look may be luckier
                logger.exception("webhooks_not_sent")
            finally:
                connection.close()
