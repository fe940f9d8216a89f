"""What we write to people, and the postbox that takes it from there.

A letter that cannot be delivered is told in the log and lost, and with it nothing that the database knows: whoever
waits for one asks for another.
"""

from urllib.parse import urlencode

from django.conf import settings
from django.core.mail import EmailMessage


def link_email(*, to: str, subject: str, intro: str, page: str, token: str, footer: str) -> EmailMessage:
    """A letter with a link to a page of the storefront, and the token for those who have no such page."""
    link = f"{settings.STOREFRONT_URL.rstrip('/')}/{page}?{urlencode({'token': token})}"
    body = f"{intro}\n\n{link}\n\nThe link works once, and not for long. Its token is:\n\n{token}\n\n{footer}\n"
    return EmailMessage(subject=subject, body=body, to=[to])


def password_reset_email(email: str, token: str) -> EmailMessage:
    return link_email(
        to=email,
        subject="A new password",
        intro="You have asked for a new password. Choose one here:",
        page="reset-password",
        token=token,
        footer="If it was not you, do nothing: your password stays as it is.",
    )


def address_verification_email(email: str, token: str) -> EmailMessage:
    return link_email(
        to=email,
        subject="Is this your e-mail?",
        intro="Somebody has registered with this e-mail. If it was you, confirm it here:",
        page="verify-email",
        token=token,
        footer="If it was not you, do nothing.",
    )
