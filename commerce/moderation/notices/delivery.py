"""Delivery of notices by e-mail, once their decisions can no longer be undone.

Each notice is the outbox of its own e-mail. A sender first postpones `mail_due_at`, so that no other sender takes the
notice meanwhile. After a crash the e-mail is sent again at that time, with the same Message-ID, by which mail programs
detect the repetition.
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
from commerce.moderation.notices.creation import QUOTE_START

MAX_RUN_TIME = timedelta(minutes=1)
SEND_TIMEOUT = timedelta(minutes=5)
RETRY_DELAYS = (
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=8),
    timedelta(hours=24),
)
BATCH_SIZE = 20

logger = structlog.get_logger("stoa.notices")


def send_notices(*, clock: Callable[[], datetime] = timezone.now) -> int:
    """Send the e-mails that are due and return how many were sent.

    It stops after MAX_RUN_TIME; the next run continues. Several may run at once.
    """
    sent, until = 0, clock() + MAX_RUN_TIME
    while (now := clock()) < until and (notices := _claim_batch(now=now)):
        for notice in notices:
            sent += _send(notice, clock)
    return sent


@transaction.atomic
def _claim_batch(*, now: datetime) -> list[Notice]:
    """Return due notices that no other sender takes before SEND_TIMEOUT."""
    due = Notice.objects.to_send(now).order_by("mail_due_at", "pk").select_for_update(skip_locked=True, of=("self",))
    notices = list(due.select_related("user")[:BATCH_SIZE])
    for notice in notices:
        notice.mail_due_at, notice.mail_attempts = now + SEND_TIMEOUT, notice.mail_attempts + 1
    Notice.objects.bulk_update(notices, ["mail_due_at", "mail_attempts"])
    return notices


def _send(notice: Notice, clock: Callable[[], datetime]) -> bool:
    """Return whether the e-mail was sent. A notice whose claim has nearly expired is left to the next run."""
    if notice.mail_due_at is None or clock() + timedelta(seconds=settings.EMAIL_TIMEOUT) >= notice.mail_due_at:
        return False
    claimed = Notice.objects.filter(pk=notice.pk, mail_attempts=notice.mail_attempts)
    if not _may_mail(notice):
        claimed.update(mail_due_at=None)
        return False
    try:
        _email(notice).send()
    except (smtplib.SMTPException, OSError, MessageError, ValueError) as error:  # the server's, or the address's
        logger.warning("notice_not_sent", notice_id=notice.pk, reason=type(error).__name__)
        delays = RETRY_DELAYS[notice.mail_attempts - 1 :]
        claimed.update(mail_due_at=clock() + delays[0] if delays else None)
        return False
    claimed.update(mail_due_at=None, mailed_at=clock())
    return True


def _may_mail(notice: Notice) -> bool:
    """Return whether the user gets the e-mail.

    One about held content, which is due before a moderator read it, needs a confirmed address: otherwise anybody could
    have the shop write to addresses of others.
    """
    is_unseen = notice.kind == Notice.Kind.CONTENT_HELD
    return notice.user.is_active and (not is_unseen or notice.user.email_verified_at is not None)


def _email(notice: Notice) -> EmailMessage:
    _, address = parseaddr(settings.DEFAULT_FROM_EMAIL)
    message_id = f"<notice-{notice.pk}@{address.rpartition('@')[2] or 'localhost'}>"
    is_unseen = notice.kind == Notice.Kind.CONTENT_HELD
    text = notice.text.partition(QUOTE_START)[0] if is_unseen else notice.text
    body = f"{text}\n"
    if notice.appeal_until:
        link = f"{settings.STOREFRONT_URL.rstrip('/')}/appeal?{urlencode({'notice': notice.pk})}"
        body += f"\nAppeal here:\n\n{link}\n"
    return EmailMessage(subject=notice.title, body=body, to=[notice.user.email], headers={"Message-ID": message_id})
