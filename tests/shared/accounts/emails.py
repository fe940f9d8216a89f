"""E-mails that the tests sent."""

import re

from django.core import mail
from django.core.mail import EmailMessage

from shared.accounts.email.outbox import email_outbox


def sent_emails() -> list[EmailMessage]:
    """Return all e-mails that were sent so far."""
    email_outbox.flush(timeout_s=30)
    return mail.outbox


def token_in(message: EmailMessage) -> str:
    """Return the token of the link in an e-mail, which is repeated below the link."""
    found = re.search(r"\?token=(\S+)\n", str(message.body))
    assert found
    token = found[1].replace("%3A", ":")
    assert f"\n{token}\n" in message.body
    return token
