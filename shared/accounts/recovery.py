"""The services behind letters: a forgotten password, an e-mail to confirm, a place to take.

Known and unknown e-mails are answered alike, after the same work. Limits are counted first, for the address that asks
and for the e-mail that is asked about, and refuse with 503 when they cannot be counted.
"""

from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Coalesce

from shared.accounts.email.links import InvalidLink, LinkPurpose, create_link_token, verify_link_token
from shared.accounts.email.messages import password_reset_email
from shared.accounts.email.outbox import email_outbox
from shared.accounts.models import User
from shared.accounts.passwords import hash_password
from shared.accounts.roles import Role
from shared.accounts.services import create_user, require_strong_password
from shared.api.errors import ApiError
from shared.api.limits.rate_limits import RateLimitDecision, address_key, hit, raise_if_limited

EMAIL_WINDOW_SECONDS = 3600


def request_password_reset(*, email: str, address: str, now: datetime) -> RateLimitDecision:
    """Sends a link to the active user of this e-mail, if there is one. Answers what is left of the limits."""
    email = User.objects.normalize_email(email)
    decision = limit_link_use(address=address)
    limit_emails(email=email)
    user = User.objects.filter(email=email, is_active=True).first()
    message = password_reset_email(
        email, create_link_token(user or User(email=email), LinkPurpose.RESET_PASSWORD, now=now)
    )
    if user and user.has_usable_password():
        email_outbox.send(message)
    return decision


def reset_password(*, token: str, password: str, address: str, now: datetime) -> RateLimitDecision:
    """Sets a new password by a link; every earlier token is refused, and the e-mail is confirmed, since the link came
    there. Raises BadLink, ValidationFailed (a weak password, the link stays good), ApiError 429."""
    decision = limit_link_use(address=address)
    claims = verify_link_token(token, LinkPurpose.RESET_PASSWORD, now=now)
    still_so = User.objects.filter(pk=claims.user_id, email=claims.email, token_version=claims.version, is_active=True)
    user = still_so.first()
    if user is None:
        raise InvalidLink
    require_strong_password(password, user)
    changed = still_so.update(
        password=hash_password(password),
        token_version=F("token_version") + 1,
        email_verified_at=Coalesce("email_verified_at", now),
    )
    if not changed:  # of two at once, one
        raise InvalidLink
    return decision


def verify_email(*, token: str, address: str, now: datetime) -> RateLimitDecision:
    """Confirms a user's e-mail by a link. Raises BadLink, also for one that was used, ApiError 429."""
    decision = limit_link_use(address=address)
    claims = verify_link_token(token, LinkPurpose.VERIFY_EMAIL, now=now)
    unconfirmed = User.objects.filter(pk=claims.user_id, email=claims.email, email_verified_at=None, is_active=True)
    if not unconfirmed.update(email_verified_at=now):
        raise InvalidLink
    return decision


def create_or_promote_staff(*, email: str, name: str, password_hash: str, now: datetime) -> User:
    """The user of an e-mail whose owner has proved it is theirs, as staff with this password: a new user, or one who
    was a customer, whose earlier tokens are refused. `password_hash` is of `hash_new_password`, which takes its time
    and so stands before the caller's transaction. Raises ApiError 409 for others."""
    email = User.objects.normalize_email(email)
    with transaction.atomic():
        user = User.objects.select_for_update().filter(email=email).first()
        if user is None:
            user = create_user(email=email, name=name, password=None, role=Role.STAFF, now=now)
        elif user.role not in (Role.CUSTOMER, Role.STAFF) or not user.is_active:
            raise ApiError(409, "This e-mail belongs to an account that cannot be staff.")
        user.role, user.password = Role.STAFF, password_hash
        user.token_version += 1
        user.email_verified_at = user.email_verified_at or now
        user.save(update_fields=["role", "password", "token_version", "email_verified_at"])
    return user


def hash_new_password(*, email: str, name: str, password: str) -> str:
    """What is kept of the password of somebody who is to be staff. Raises ValidationFailed for a weak one."""
    require_strong_password(password, User(email=User.objects.normalize_email(email), name=name))
    return hash_password(password)


def limit_link_use(*, address: str) -> RateLimitDecision:
    """Counts a letter asked for, or a link tried, by this address. Raises ApiError 429 or 503."""
    decision = hit("links", address_key(address), limit=settings.LOGIN_LIMIT, strict=True)
    raise_if_limited(decision)
    return decision


def limit_emails(*, email: str) -> None:
    """Counts a letter to this e-mail: somebody's inbox is not to be filled. Raises ApiError 429 or 503."""
    raise_if_limited(hit("letters", email, limit=settings.EMAIL_LIMIT, window_s=EMAIL_WINDOW_SECONDS, strict=True))
