"""Signed tokens of links in e-mails: each for one purpose, one user and one e-mail address, for a limited time.

Nothing is stored. A token works once, because its use changes what it names: the token version of the user, or whether
the address is confirmed.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from django.core import signing

if TYPE_CHECKING:
    from shared.accounts.models import User
from shared.api.errors import ValidationFailed


class LinkPurpose(StrEnum):
    """Purpose of a link token, and the storefront's page of that link."""

    RESET_PASSWORD = "reset-password"  # noqa: S105 - a page's name
    VERIFY_EMAIL = "verify-email"


LIFETIMES = {LinkPurpose.RESET_PASSWORD: timedelta(hours=1), LinkPurpose.VERIFY_EMAIL: timedelta(days=3)}


class InvalidLink(ValidationFailed):
    """422 with one message for every reason, so that it does not tell who is registered."""

    def __init__(self) -> None:
        super().__init__({"token": ["This link is not valid, has expired or has been used. Ask for a new one."]})


@dataclass(frozen=True, kw_only=True)
class LinkClaims:
    """Claims of a verified link token: user, e-mail address, and the user's token version at issue."""

    user_id: int
    email: str
    version: int


def create_link_token(user: "User", purpose: LinkPurpose, *, now: datetime) -> str:
    """Return a token for this user, valid from `now` for the lifetime of its purpose."""
    expires = int((now + LIFETIMES[purpose]).timestamp())
    claims = {"user": user.pk or 0, "email": user.email, "version": user.token_version, "expires": expires}
    return signing.dumps(claims, salt=_salt(purpose))


def verify_link_token(token: str, purpose: LinkPurpose, *, now: datetime) -> LinkClaims:
    """Return the claims of a token of this purpose. Raise InvalidLink; the caller checks whether it was used."""
    try:
        claims = signing.loads(token, salt=_salt(purpose))
    except signing.BadSignature:
        raise InvalidLink from None
    if claims["expires"] <= now.timestamp():
        raise InvalidLink
    return LinkClaims(user_id=claims["user"], email=claims["email"], version=claims["version"])


def _salt(purpose: LinkPurpose) -> str:
    return f"stoa.accounts.{purpose}"
