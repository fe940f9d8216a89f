"""Who is told what about a decision: a notice in the API, and a letter.

A notice is written with its decision and due when that can no longer be undone; undo deletes it. Each is the outbox of
its own letter: who sends one first puts off when it is due, so that nobody else does meanwhile, and what a crash leaves
is sent after that time. A crash between the mail server's yes and our note of it sends a letter again, with the same
Message-ID, by which mail programs know it.
"""

import smtplib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from email.errors import MessageError
from email.utils import parseaddr
from urllib.parse import urlencode

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.utils import timezone
from django.utils.text import Truncator

from commerce.moderation.models import Decision, Notice
from commerce.moderation.targets import Reportable
from commerce.reviews.models import Review

LONGEST_ROUND = timedelta(minutes=1)
SEND_WITHIN = timedelta(minutes=5)
RETRY_AFTER = (timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=2), timedelta(hours=8), timedelta(hours=24))
AT_ONCE = 20
QUOTED = 500  # characters of what its author wrote
NO_REASON = "It is against the rules of this shop."

logger = structlog.get_logger("stoa.notices")

TITLES: Mapping[str, str] = {
    Notice.Kind.CONTENT_REMOVED: "We have removed your {thing}",
    Notice.Kind.CONTENT_RESTORED: "Your {thing} is back",
    Notice.Kind.WARNING: "A word about your {thing}",
    Notice.Kind.REPORT_ACCEPTED: "What you reported is gone",
    Notice.Kind.REPORT_REJECTED: "What you reported stays",
    Notice.Kind.APPEAL_KEPT: "Your {thing} stays removed",
}
TEXTS: Mapping[str, str] = {
    Notice.Kind.CONTENT_REMOVED: "A moderator has removed your {thing} of {product}. {reason}\n\nYou wrote:\n\n{quote}"
    "\n\nIf you think that this is wrong, you can appeal once, until {appeal_until:%d %B %Y}: another look will be "
    "taken at it.",
    Notice.Kind.CONTENT_RESTORED: "Your {thing} of {product} was removed, and is there again. We are sorry. {reason}",
    Notice.Kind.WARNING: "A moderator has looked at your {thing} of {product}, and left it where it is. {reason}\n\n"
    "You wrote:\n\n{quote}",
    Notice.Kind.REPORT_ACCEPTED: "Thank you. You reported a {thing} of {product}. A moderator has removed it. {reason}",
    Notice.Kind.REPORT_REJECTED: "You reported a {thing} of {product}. A moderator has looked at it and left it where "
    "it is. {reason}",
    Notice.Kind.APPEAL_KEPT: "We have looked again at your {thing} of {product}, and it stays removed. {reason}",
}
ASKS_WHY = frozenset({Notice.Kind.CONTENT_REMOVED, Notice.Kind.WARNING, Notice.Kind.APPEAL_KEPT})
Action = Decision.Action
TO_AUTHOR: Mapping[str, str] = {
    Action.ACCEPTED: Notice.Kind.CONTENT_REMOVED,
    Action.WARNED: Notice.Kind.WARNING,
    Action.RESTORED: Notice.Kind.CONTENT_RESTORED,
    Action.APPEAL_OVERTURNED: Notice.Kind.CONTENT_RESTORED,
    Action.APPEAL_KEPT: Notice.Kind.APPEAL_KEPT,
}
TO_REPORTERS: Mapping[str, str] = {
    Action.ACCEPTED: Notice.Kind.REPORT_ACCEPTED,
    Action.REJECTED: Notice.Kind.REPORT_REJECTED,
}


def write_notices(decision: Decision, content: Reportable) -> None:
    """What a decision has us tell its author and the reporters, in the decision's transaction."""
    notices = []
    if kind := TO_AUTHOR.get(decision.action):
        notices.append(_notice(kind, decision, content, decision.author_id))
    if kind := TO_REPORTERS.get(decision.action):
        user_ids = sorted({report["user_id"] for report in decision.reports})
        notices += [_notice(kind, decision, content, user_id) for user_id in user_ids]
    Notice.objects.bulk_create(notices)


def _notice(kind: str, decision: Decision, content: Reportable, user_id: int) -> Notice:
    is_removal = kind == Notice.Kind.CONTENT_REMOVED
    appeal_until = decision.undo_until + settings.MODERATION_APPEAL_WINDOW if is_removal else None
    wrote = content.comment if isinstance(content, Review) else content.question
    words = {
        "thing": "review" if isinstance(content, Review) else "question",
        "product": content.product.name,
        "reason": decision.reason or (NO_REASON if kind in ASKS_WHY else ""),
        "quote": Truncator(wrote).chars(QUOTED) or "(only stars)",
        "appeal_until": appeal_until,
    }
    return Notice(
        user_id=user_id,
        decision=decision,
        kind=kind,
        title=TITLES[kind].format(**words),
        text=TEXTS[kind].format(**words).strip(),
        due_at=decision.undo_until,
        mail_due_at=decision.undo_until,
        appeal_until=appeal_until,
    )


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
        link = f"{settings.EMAIL_LINKS.rstrip('/')}/appeal?{urlencode({'notice': notice.pk})}"
        body += f"\nAppeal here:\n\n{link}\n"
    return EmailMessage(subject=notice.title, body=body, to=[notice.user.email], headers={"Message-ID": message_id})
