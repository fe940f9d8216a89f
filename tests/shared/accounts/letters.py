"""The letters that people got."""

import re

from django.core import mail
from django.core.mail import EmailMessage

from shared.accounts.email.outbox import email_outbox


def letters() -> list[EmailMessage]:
    """All that were sent so far."""
    email_outbox.flush(timeout_s=30)
    return mail.outbox


def token_in(message: EmailMessage) -> str:
    """The token of a letter's link, which stands below it once more."""
    found = re.search(r"\?token=(\S+)\n", str(message.body))
    assert found
    token = found[1].replace("%3A", ":")
    assert f"\n{token}\n" in message.body
    return token
