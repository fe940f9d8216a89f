"""What we write to people, and the postbox that takes it from there.

A letter that cannot be delivered is told in the log and lost, and with it nothing that the database knows: whoever
waits for one asks for another.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import structlog
from django.conf import settings
from django.core.mail import EmailMessage

MOST_WAITING = 1000

logger = structlog.get_logger("stoa.letters")


def letter(*, to: str, subject: str, why: str, page: str, token: str, if_not: str) -> EmailMessage:
    """A letter with a link to a page of the storefront, and the token for those who have no such page."""
    link = f"{settings.EMAIL_LINKS.rstrip('/')}/{page}?{urlencode({'token': token})}"
    body = f"{why}\n\n{link}\n\nThe link works once, and not for long. Its token is:\n\n{token}\n\n{if_not}\n"
    return EmailMessage(subject=subject, body=body, to=[to])


def reset_letter(email: str, token: str) -> EmailMessage:
    return letter(
        to=email,
        subject="A new password",
        why="You have asked for a new password. Choose one here:",
        page="reset-password",
        token=token,
        if_not="If it was not you, do nothing: your password stays as it is.",
    )


def verification_letter(email: str, token: str) -> EmailMessage:
    return letter(
        to=email,
        subject="Is this your e-mail?",
        why="Somebody has registered with this e-mail. If it was you, confirm it here:",
        page="verify-email",
        token=token,
        if_not="If it was not you, do nothing.",
    )


class Postbox:
    """Delivers in a thread of its own, one letter after the other: nobody waits for a mail server, and how long an
    answer takes does not tell whether a letter was written."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(MOST_WAITING)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="letters")

    def post(self, message: EmailMessage) -> None:
        if not self._places.acquire(blocking=False):
            logger.error("letter_lost", reason="too many wait")
            return
        self._thread.submit(self._deliver, message)

    def wait_until_empty(self, *, timeout_s: float) -> None:
        """Returns when what was posted so far has been delivered or lost. Raises TimeoutError."""
        self._thread.submit(lambda: None).result(timeout_s)

    def _deliver(self, message: EmailMessage) -> None:
        try:
            message.send()
        except Exception as error:  # whatever a mail server does, the next letter goes out
            logger.error("letter_lost", reason=type(error).__name__)
        finally:
            self._places.release()


postbox = Postbox()
