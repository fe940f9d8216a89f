"""Password resets, e-mail confirmation and staff accounts by links that are sent by e-mail.

Known and unknown e-mail addresses get the same response after the same work. Limits are counted first, for the client
and for the e-mail address. When they cannot be counted, requests are refused with 503.
"""

from datetime import datetime

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Coalesce

from shared.accounts.email.links import InvalidLink, LinkPurpose, create_link_token, verify_link_token
from shared.accounts.email.messages import address_verification_email, already_registered_email, password_reset_email
from shared.accounts.email.outbox import email_outbox
from shared.accounts.models import User
from shared.accounts.passwords import hash_password
from shared.accounts.roles import Role
from shared.accounts.services import (
    create_user,
    limit_registrations,
    record_security_event,
    require_strong_password,
    rights_of_registered_users,
)
from shared.api.errors import ApiError
from shared.api.limits.rate_limits import RateLimitDecision, address_key, hit, raise_if_limited

EMAIL_WINDOW_SECONDS = 3600
STAFF_FIELDS = ("role", "password", "token_version", "email_verified_at", "may_run_inference", "monthly_token_limit")


def request_password_reset(*, email: str, address: str, now: datetime) -> RateLimitDecision:
    """Send a link to the active user of this e-mail address, if any, and return the state of the client's limit.

    No second e-mail is sent within a resend interval: an hour by EMAIL_LIMIT.
    """
    email = User.objects.normalize_email(email)
    decision = limit_link_use(address=address)
    # A stranger's requests never refuse the owner's: in the meantime the link of the last e-mail is valid.
    is_due = hit("reset-letters", email, limit=1, window_s=_resend_interval(), strict=True).allowed
    user = User.objects.filter(email=email, is_active=True).first()
    message = password_reset_email(
        email, create_link_token(user or User(email=email), LinkPurpose.RESET_PASSWORD, now=now)
    )
    if is_due and user and user.has_usable_password():
        email_outbox.send(message)
    return decision


def request_registration(
    *, email: str, name: str, password: str, role: Role, address: str, now: datetime
) -> RateLimitDecision:
    """Create a user who can sign in once the e-mail address is confirmed, and send the link for it.

    Known and unknown addresses get the same response after the same work: the user of a known one gets an e-mail that
    says so. Return the state of the client's limit. Raise ApiError 403 and 429, and ValidationFailed for a weak
    password.
    """
    decision = limit_registrations(role=role, address=address)
    email = User.objects.normalize_email(email)
    user = User(email=email, name=name, role=role, created_at=now, **rights_of_registered_users())
    require_strong_password(password, user)
    user.password = hash_password(password)
    is_due = hit("registration-letters", email, limit=1, window_s=_resend_interval(), strict=True).allowed
    try:
        with transaction.atomic():
            user.save(force_insert=True)
        is_due = True  # once for each user, also if an earlier attempt counted and failed
        message = address_verification_email(email, create_link_token(user, LinkPurpose.VERIFY_EMAIL, now=now))
    except IntegrityError:
        user = User.objects.get(email=email)
        message = already_registered_email(email, create_link_token(user, LinkPurpose.RESET_PASSWORD, now=now))
    if is_due and user.is_active and user.has_usable_password():
        email_outbox.send(message)
    return decision


def reset_password(*, token: str, password: str, address: str, now: datetime) -> RateLimitDecision:
    """Set a new password by a link, refuse every earlier token, and confirm the e-mail address of the link.

    Raise InvalidLink, ValidationFailed for a weak password, which leaves the link valid, and ApiError 429.
    """
    decision = limit_link_use(address=address)
    claims = verify_link_token(token, LinkPurpose.RESET_PASSWORD, now=now)
    matching = User.objects.filter(pk=claims.user_id, email=claims.email, token_version=claims.version, is_active=True)
    user = matching.first()
    if user is None:
        raise InvalidLink
    require_strong_password(password, user)
    hashed = hash_password(password)  # before the transaction: it is slow
    with transaction.atomic():
        changed = matching.update(
            password=hashed,
            token_version=F("token_version") + 1,
            email_verified_at=Coalesce("email_verified_at", now),
        )
        if not changed:  # a concurrent request used the link
            raise InvalidLink
        record_security_event("password_reset", user=user, actor=user)
    return decision


def verify_email(*, token: str, address: str, now: datetime) -> RateLimitDecision:
    """Confirm the e-mail address of a link. Raise InvalidLink, also for a used link, and ApiError 429."""
    decision = limit_link_use(address=address)
    claims = verify_link_token(token, LinkPurpose.VERIFY_EMAIL, now=now)
    unconfirmed = User.objects.filter(pk=claims.user_id, email=claims.email, email_verified_at=None, is_active=True)
    if not unconfirmed.update(email_verified_at=now):
        raise InvalidLink
    return decision


def create_or_promote_staff(
    *, email: str, name: str, password_hash: str, may_run_inference: bool, now: datetime
) -> User:
    """Return a staff user with this confirmed e-mail address: a new user, or a customer, whose tokens are refused.

    `password_hash` comes from `hash_new_password`, which is slow and runs before the caller's transaction.
    `may_run_inference`: of who invited them; the staff have it only if they did. Raise ApiError 409 for a user of
    another role, and 403 for a new user of a server that is closed to them.
    """
    email = User.objects.normalize_email(email)
    with transaction.atomic():
        user = User.objects.select_for_update().filter(email=email).first()
        if user is None:
            if settings.REGISTRATION == "closed":
                raise ApiError(403, "Nobody can register here. Ask the operator for an account.")
            rights = rights_of_registered_users() | {"may_run_inference": may_run_inference}
            user = create_user(email=email, name=name, password=None, role=Role.STAFF, now=now, **rights)
        elif user.role not in (Role.CUSTOMER, Role.STAFF) or not user.is_active:
            raise ApiError(409, "The user with this e-mail address cannot become staff.")
        elif user.role == Role.CUSTOMER:
            _limit_inference(user, may_run_inference)
        if user.role != Role.STAFF:
            record_security_event("role_changed", user=user, actor=user, before=user.role, after=Role.STAFF)
        record_security_event("password_changed", user=user, actor=user)
        user.role, user.password = Role.STAFF, password_hash
        user.token_version += 1
        user.email_verified_at = user.email_verified_at or now
        user.save(update_fields=STAFF_FIELDS)
    return user


def _limit_inference(user: User, may_run_inference: bool) -> None:
    """Give a customer who becomes staff the rights of staff who register."""
    user.may_run_inference = user.may_run_inference and may_run_inference
    if user.monthly_token_limit is None:
        user.monthly_token_limit = rights_of_registered_users().get("monthly_token_limit")


def hash_new_password(*, email: str, name: str, password: str) -> str:
    """Return the hash of a new staff user's password. Raise ValidationFailed for a weak one."""
    require_strong_password(password, User(email=User.objects.normalize_email(email), name=name))
    return hash_password(password)


def limit_link_use(*, address: str) -> RateLimitDecision:
    """Count a requested e-mail or a used link for this client. Raise ApiError 429 or 503."""
    decision = hit("links", address_key(address), limit=settings.LOGIN_LIMIT, strict=True)
    raise_if_limited(decision)
    return decision


def _resend_interval() -> int:
    return max(1, EMAIL_WINDOW_SECONDS // max(1, settings.EMAIL_LIMIT))


def limit_emails(*, email: str) -> None:
    """Count an e-mail to this address, so that nobody floods an inbox. Raise ApiError 429 or 503."""
    raise_if_limited(hit("letters", email, limit=settings.EMAIL_LIMIT, window_s=EMAIL_WINDOW_SECONDS, strict=True))
