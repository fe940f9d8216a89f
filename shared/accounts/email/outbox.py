"""Delivery of e-mails in a background thread."""

import threading
from concurrent.futures import ThreadPoolExecutor

import structlog
from django.core.mail import EmailMessage

MAX_QUEUED_EMAILS = 1000

logger = structlog.get_logger("stoa.email")


class EmailOutbox:
    """Queue of e-mails that one background thread delivers.

    No request waits for the mail server, and no response time tells whether an e-mail was sent. An e-mail that cannot
    be delivered is logged and lost: the user asks for another.
    """

    def __init__(self) -> None:
        self._queue_slots = threading.BoundedSemaphore(MAX_QUEUED_EMAILS)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="email")

    def send(self, message: EmailMessage) -> None:
        if not self._queue_slots.acquire(blocking=False):
            logger.error("email_lost", reason="queue full")
            return
        self._thread.submit(self._deliver, message)

    def flush(self, *, timeout_s: float) -> None:
        """Wait until every queued e-mail is delivered or lost. Raise TimeoutError."""
        self._thread.submit(lambda: None).result(timeout_s)

    def _deliver(self, message: EmailMessage) -> None:
        try:
            message.send()
        except Exception as error:  # whatever the mail server does, the next e-mail is delivered
            logger.error("email_lost", reason=type(error).__name__)
        finally:
            self._queue_slots.release()


email_outbox = EmailOutbox()
