"""Delivery of e-mails in a background thread."""

import threading
from concurrent.futures import ThreadPoolExecutor

import structlog
from django.core.mail import EmailMessage

MAX_QUEUED_EMAILS = 1000

logger = structlog.get_logger("stoa.letters")


class EmailOutbox:
    """Delivers in a thread of its own, one letter after the other: nobody waits for a mail server, and how long an
    answer takes does not tell whether a letter was written."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(MAX_QUEUED_EMAILS)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="letters")

    def send(self, message: EmailMessage) -> None:
        if not self._places.acquire(blocking=False):
            logger.error("letter_lost", reason="too many wait")
            return
        self._thread.submit(self._deliver, message)

    def flush(self, *, timeout_s: float) -> None:
        """Returns when what was posted so far has been delivered or lost. Raises TimeoutError."""
        self._thread.submit(lambda: None).result(timeout_s)

    def _deliver(self, message: EmailMessage) -> None:
        try:
            message.send()
        except Exception as error:  # whatever a mail server does, the next letter goes out
            logger.error("letter_lost", reason=type(error).__name__)
        finally:
            self._places.release()


email_outbox = EmailOutbox()
