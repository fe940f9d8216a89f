"""Composition of the e-mails with links: password reset, address confirmation, and those of other apps."""

from urllib.parse import urlencode

from django.conf import settings
from django.core.mail import EmailMessage


def link_email(*, to: str, subject: str, intro: str, page: str, token: str, footer: str) -> EmailMessage:
    """Return an e-mail with a link to a page of the storefront, and the token for clients without such a page."""
    link = f"{settings.STOREFRONT_URL.rstrip('/')}/{page}?{urlencode({'token': token})}"
    body = f"{intro}\n\n{link}\n\nThe link works once and expires soon. Its token is:\n\n{token}\n\n{footer}\n"
    return EmailMessage(subject=subject, body=body, to=[to])


def password_reset_email(email: str, token: str) -> EmailMessage:
    return link_email(
        to=email,
        subject="Reset your password",
        intro="You asked to reset your password. Choose a new one here:",
        page="reset-password",
        token=token,
        footer="If you did not ask for this, ignore this e-mail: your password stays the same.",
    )


def address_verification_email(email: str, token: str) -> EmailMessage:
    return link_email(
        to=email,
        subject="Confirm your e-mail address",
        intro="Somebody registered with this e-mail address. If it was you, confirm it here:",
        page="verify-email",
        token=token,
        footer="If it was not you, ignore this e-mail.",
    )


def already_registered_email(email: str, token: str) -> EmailMessage:
    return link_email(
        to=email,
        subject="You are registered already",
        intro="Somebody registered with this e-mail address, which has an account. If it was you, sign in, or choose a "
        "new password here:",
        page="reset-password",
        token=token,
        footer="If it was not you, ignore this e-mail: nothing changes.",
    )
