"""The signed tokens that letters carry: each for one purpose, one user and one e-mail, and for a time.

They are good once by what they name: a password's version, an address that is not confirmed yet. Nothing is stored.
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
    """What a token is for; also the storefront's page that a letter leads to."""

    RESET_PASSWORD = "reset-password"  # noqa: S105 - a page's name
    VERIFY_EMAIL = "verify-email"


LIFETIMES = {LinkPurpose.RESET_PASSWORD: timedelta(hours=1), LinkPurpose.VERIFY_EMAIL: timedelta(days=3)}


class InvalidLink(ValidationFailed):
    """One message for every reason: which one it was would tell who is registered here."""

    def __init__(self) -> None:
        super().__init__({"token": ["This link is not valid, has expired or has been used. Ask for a new one."]})


@dataclass(frozen=True, kw_only=True)
class LinkClaims:
    """Whom a token was made for, and what was so when it was made."""

    user_id: int
    email: str
    version: int


def create_link_token(user: "User", purpose: LinkPurpose, *, now: datetime) -> str:
    """A token for this user, good from now on for its purpose's time."""
    expires = int((now + LIFETIMES[purpose]).timestamp())
    said = {"user": user.pk or 0, "email": user.email, "version": user.token_version, "expires": expires}
    return signing.dumps(said, salt=_salt(purpose))


def verify_link_token(token: str, purpose: LinkPurpose, *, now: datetime) -> LinkClaims:
    """What a token of this purpose says. Raises BadLink; whether it was used is the caller's to see."""
    try:
        said = signing.loads(token, salt=_salt(purpose))
    except signing.BadSignature:
        raise InvalidLink from None
    if said["expires"] <= now.timestamp():
        raise InvalidLink
    return LinkClaims(user_id=said["user"], email=said["email"], version=said["version"])


def _salt(purpose: LinkPurpose) -> str:
    return f"stoa.accounts.{purpose}"
