"""Who is told what about a decision: a notice in the API, and a letter.

A notice is written with its decision and due when that can no longer be undone; undo deletes it. Each is the outbox of
its own letter: who sends one first puts off when it is due, so that nobody else does meanwhile, and what a crash leaves
is sent after that time. A crash between the mail server's yes and our note of it sends a letter again, with the same
Message-ID, by which mail programs know it.
"""

import smtplib
from collections.abc import Callable
from datetime import datetime, timedelta
from email.errors import MessageError
from email.utils import parseaddr
from urllib.parse import urlencode

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.utils import timezone

from commerce.moderation.models import Notice

LONGEST_ROUND = timedelta(minutes=1)
SEND_WITHIN = timedelta(minutes=5)
RETRY_AFTER = (timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=2), timedelta(hours=8), timedelta(hours=24))
AT_ONCE = 20

logger = structlog.get_logger("stoa.notices")


def send_notices(*, clock: Callable[[], datetime] = timezone.now) -> int:
    """Sends the letters that are due, for a minute at most: the next round goes on. Answers how many went out. Several
    may run at once."""
    sent, until = 0, clock() + LONGEST_ROUND
    while (now := clock()) < until and (notices := _take(now=now)):
        for notice in notices:
            sent += _send(notice, clock)
    return sent


@transaction.atomic
def _take(*, now: datetime) -> list[Notice]:
    """A handful that is ours for SEND_WITHIN."""
    due = Notice.objects.to_send(now).order_by("mail_due_at", "pk").select_for_update(skip_locked=True, of=("self",))
    notices = list(due.select_related("user")[:AT_ONCE])
    for notice in notices:
        notice.mail_due_at, notice.mail_attempts = now + SEND_WITHIN, notice.mail_attempts + 1
    Notice.objects.bulk_update(notices, ["mail_due_at", "mail_attempts"])
    return notices


def _send(notice: Notice, clock: Callable[[], datetime]) -> bool:
    """Whether it went out. One that is ours no longer, as those before it took too long, is left to the next round."""
    if notice.mail_due_at is None or clock() + timedelta(seconds=settings.EMAIL_TIMEOUT) >= notice.mail_due_at:
        return False
    ours = Notice.objects.filter(pk=notice.pk, mail_attempts=notice.mail_attempts)
    if not notice.user.is_active:
        ours.update(mail_due_at=None)
        return False
    try:
        _letter(notice).send()
    except (smtplib.SMTPException, OSError, MessageError, ValueError) as error:  # the server's, or the address's
        logger.warning("notice_not_sent", notice_id=notice.pk, reason=type(error).__name__)
        retries = RETRY_AFTER[notice.mail_attempts - 1 :]
        ours.update(mail_due_at=clock() + retries[0] if retries else None)
        return False
    ours.update(mail_due_at=None, mailed_at=clock())
    return True


def _letter(notice: Notice) -> EmailMessage:
    _, address = parseaddr(settings.DEFAULT_FROM_EMAIL)
    message_id = f"<notice-{notice.pk}@{address.rpartition('@')[2] or 'localhost'}>"
    body = f"{notice.text}\n"
    if notice.appeal_until:
        link = f"{settings.STOREFRONT_URL.rstrip('/')}/appeal?{urlencode({'notice': notice.pk})}"
        body += f"\nAppeal here:\n\n{link}\n"
    return EmailMessage(subject=notice.title, body=body, to=[notice.user.email], headers={"Message-ID": message_id})
