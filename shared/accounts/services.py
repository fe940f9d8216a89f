"""Writes to accounts: users, sign-ins and API keys. Callers pass the time; errors are ApiErrors."""

import secrets
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone
from rest_framework_simplejwt.exceptions import TokenError

from shared.accounts.authentication import API_KEY_PREFIX, NotAuthenticated, Principal, hash_secret
from shared.accounts.email.links import LinkPurpose, create_link_token
from shared.accounts.email.messages import address_verification_email
from shared.accounts.email.outbox import email_outbox
from shared.accounts.models import ApiKey, SignIn, User
from shared.accounts.passwords import hash_password, password_matches
from shared.accounts.roles import ROLE_PERMISSIONS, Role
from shared.accounts.sign_ins.networks import find_user, network_of, remember_network
from shared.accounts.sign_ins.second_factor import SecondFactorRequired, check_second_factor, has_second_factor
from shared.accounts.tokens import AccessToken, RefreshToken
from shared.api.errors import ApiError, NotFound, ValidationFailed
from shared.api.limits.rate_limits import RateLimitDecision, address_key, hit, raise_if_limited, rate_limit_headers
from shared.audit.services import record_audit_entry

logger = structlog.get_logger(__name__)

REUSE_PERIOD = timedelta(seconds=10)  # in which a used refresh token is answered again with its pair
REGISTERING_ROLES = (Role.CUSTOMER, Role.STORE_OWNER)
LAST_ADMIN_ERROR = "This is the last active super admin. Create another one first."


@dataclass(frozen=True, kw_only=True)
class TokenPair:
    """New access and refresh token, with the end of the access token and the state of the sign-in limit, if counted."""

    access: str
    refresh: str
    expires_at: datetime
    user: User
    rate_limit: RateLimitDecision | None = None


def create_user(
    *,
    email: str,
    name: str,
    password: str | None,
    role: Role,
    now: datetime,
    may_run_inference: bool = True,
    monthly_token_limit: int | None = None,
) -> User:
    """Create an active user. Without a password, they cannot sign in.

    Raise ValidationFailed for an e-mail address that is taken and for a weak password.
    """
    user = User(
        email=User.objects.normalize_email(email),
        name=name,
        role=role,
        may_run_inference=may_run_inference,
        monthly_token_limit=monthly_token_limit,
        created_at=now,
    )
    if password is not None:
        require_strong_password(password, user)
    if User.objects.filter(email=user.email).exists():  # before the costly hash; the constraint decides
        raise _email_taken_error()
    user.password = hash_password(password)
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError:
        raise _email_taken_error() from None
    return user


def register_user(*, email: str, name: str, password: str, role: Role, address: str, now: datetime) -> TokenPair:
    """Create a customer or store owner, sign them in, and send an e-mail to confirm the address.

    Raise ApiError 403 for another role and 429, and ValidationFailed.
    """
    decision = limit_registrations(role=role, address=address)
    user = create_user(email=email, name=name, password=password, role=role, now=now, **rights_of_registered_users())
    message = address_verification_email(user.email, create_link_token(user, LinkPurpose.VERIFY_EMAIL, now=now))
    transaction.on_commit(lambda: email_outbox.send(message))
    return _start_sign_in(user, now, decision)


def limit_registrations(*, role: Role, address: str) -> RateLimitDecision:
    """Count a registration from this address. Raise ApiError 403 where it is not allowed, and 429."""
    if settings.REGISTRATION in ("invited", "closed"):
        raise ApiError(403, "Nobody can register here. Ask the operator for an account.")
    if role not in REGISTERING_ROLES:
        raise ApiError(403, "Only customers and store owners can register. Staff are invited by a store owner.")
    decision = hit("register", address_key(address), limit=settings.LOGIN_LIMIT, strict=True)
    raise_if_limited(decision)
    return decision


def rights_of_registered_users() -> dict[str, Any]:
    """Return the arguments of `create_user` for somebody whom no administrator created."""
    return {
        "may_run_inference": settings.REGISTERED_MAY_RUN_INFERENCE,
        "monthly_token_limit": settings.REGISTERED_MONTHLY_TOKEN_LIMIT or None,
    }


def sign_in(*, email: str, password: str, address: str, now: datetime, otp: str = "") -> TokenPair:
    """Return the tokens of a new sign-in.

    otp: code of the second factor, for users who have turned it on.
    Raise ApiError 401, the same for every wrong pair, 429 before any hashing, and 403 for an e-mail address that
    must be confirmed or a second factor that must be set up first.
    """
    user, decision = check_credentials(email=email, password=password, otp=otp, address=address, now=now)
    if settings.REQUIRE_SECOND_FACTOR and user.is_staff and not has_second_factor(user):
        raise ApiError(403, "Set up a second factor in the admin first: the operator requires one of your role.")
    if settings.REGISTRATION == "verified" and not user.email_verified_at and user.role in REGISTERING_ROLES:
        raise ApiError(403, "Confirm your e-mail address first: we sent you a link. A password reset confirms it too.")
    return _start_sign_in(user, now, decision)


def check_credentials(
    *, email: str, password: str, otp: str = "", address: str, now: datetime
) -> tuple[User, RateLimitDecision]:
    """Return the active user of this pair and the state of the limits. Raise as `sign_in` does.

    An unknown e-mail address, an inactive user and a wrong password take the same time and look the same. Attempts are
    counted for the address and for the account. A network from which the user has signed in before counts for itself,
    so that strangers lock nobody out.
    """
    email, network = User.objects.normalize_email(email), network_of(address)
    by_address = hit("sign-in-address", address_key(address), limit=settings.LOGIN_LIMIT, strict=True)
    raise_if_limited(by_address)
    user, is_known_network = find_user(email=email, network=network, now=now)
    counter = f"{email} {network}" if is_known_network else email
    by_account = hit("sign-in-account", counter, limit=settings.LOGIN_LIMIT, strict=True)
    raise_if_limited(by_account)
    decision = min(by_address, by_account, key=lambda decision: decision.remaining)
    if not password_matches(user, password) or user is None or not user.is_active:
        logger.warning("sign_in_refused", factor="password", user_id=user.pk if user else None)
        raise ApiError(
            401,
            "The e-mail address or the password is wrong.",
            headers={"WWW-Authenticate": "Bearer"} | rate_limit_headers(decision),
        )
    try:
        factor = check_second_factor(user=user, code=otp, now=now)
    except SecondFactorRequired:
        logger.warning("sign_in_refused", factor="second", user_id=user.pk)
        raise
    logger.info("sign_in_accepted", factor=factor, user_id=user.pk)
    remember_network(user=user, network=network, now=now)
    return user, decision


def refresh_tokens(*, refresh: str, now: datetime) -> TokenPair:
    """Rotate a refresh token: exchange it for a new pair of tokens. Raise NotAuthenticated.

    Two tabs of a browser may use one token at once: within REUSE_PERIOD after its exchange it is answered with the
    same pair. A later use comes from a copy, and revokes the sign-in.
    """
    try:
        token = RefreshToken(refresh)
    except TokenError:
        raise NotAuthenticated from None
    sign_in = SignIn.objects.select_related("user").filter(id=token.sign_in_id, revoked_at=None).first()
    if sign_in is None or not sign_in.user.is_active or sign_in.user.token_version != token.token_version:
        raise NotAuthenticated
    used_at = timezone.now()  # not `now`: a request that arrived before this moment lost a race and is no copy
    SignIn.objects.filter(id=sign_in.id, refresh_id=token.token_id, revoked_at=None).update(
        refresh_id=uuid.uuid4(),
        previous_refresh_id=token.token_id,
        token_version=token.token_version,
        refreshed_at=used_at,
        expires_at=used_at + RefreshToken.lifetime,
    )
    sign_in.refresh_from_db(fields=["refresh_id", "previous_refresh_id", "refreshed_at", "revoked_at"])
    if sign_in.revoked_at:
        raise NotAuthenticated
    if sign_in.previous_refresh_id != token.token_id or now > sign_in.refreshed_at + REUSE_PERIOD:
        _revoke_reused(sign_in, now)
        raise NotAuthenticated
    return _token_pair(sign_in, sign_in.refreshed_at)


@transaction.atomic
def _revoke_reused(sign_in: SignIn, now: datetime) -> None:
    """Revoke a sign-in of which an exchanged token was used again. A use before the last exchange revokes nothing."""
    if SignIn.objects.filter(id=sign_in.id, revoked_at=None, refreshed_at__lt=now).update(revoked_at=now):
        record_security_event("refresh_token_reused", user=sign_in.user, actor=None, session=sign_in.id)


def sign_out(*, principal: Principal, refresh: str | None, now: datetime) -> None:
    """Revoke the sign-in of the caller's access token and the one of `refresh`, with all their tokens."""
    revoked = {principal.sign_in.id} if principal.sign_in else set()
    if refresh:
        with suppress(TokenError):  # an invalid token has no sign-in to revoke
            revoked.add(RefreshToken(refresh).sign_in_id)
    SignIn.objects.filter(id__in=revoked, user=principal.user, revoked_at=None).update(revoked_at=now)


@transaction.atomic
def revoke_sign_in(*, user: User, sign_in_id: uuid.UUID, now: datetime) -> None:
    """End one of the user's sign-ins, with all its tokens. Raise NotFound for any other and for one that has ended."""
    if not SignIn.objects.active_of(user, now=now).filter(pk=sign_in_id).order_by().update(revoked_at=now):
        raise NotFound
    record_security_event("session_revoked", user=user, actor=user, session=sign_in_id)


def change_password(*, user: User, old: str, new: str) -> RateLimitDecision:
    """Set a new password, refuse every earlier token, and return the state of the limit.

    Raise ValidationFailed for a wrong `old` or a weak `new`, and ApiError 429 before any hashing.
    """
    decision = hit("change-password", str(user.pk), limit=settings.LOGIN_LIMIT, strict=True)
    raise_if_limited(decision)
    if not password_matches(user, old):
        raise ValidationFailed({"old": ["Your old password is wrong."]})
    require_strong_password(new, user, field="new")
    set_password(user=user, password=new, actor=user)
    return decision


def set_password(*, user: User, password: str, actor: User | None = None) -> None:
    """Set a password without the old one, as an administrator does, and refuse every earlier token."""
    user.password = hash_password(password)
    with transaction.atomic():
        User.objects.filter(pk=user.pk).update(password=user.password, token_version=F("token_version") + 1)
        record_security_event("password_changed", user=user, actor=actor)
    user.refresh_from_db(fields=["token_version"])


def change_user(*, user: User, name: str, email: str, role: Role, is_active: bool, actor: User | None = None) -> None:
    """Save an administrator's edit of a user.

    A new role or a change of `is_active` refuses every earlier token. A new e-mail address is not confirmed. Raise
    ValidationFailed for an e-mail address that is taken and for the last super admin.
    """
    with transaction.atomic():
        row = lock_user_and_admins(user_id=user.pk)
        if would_leave_no_admin(user=row, role=role, is_active=is_active):
            raise ValidationFailed({"role": [LAST_ADMIN_ERROR]})
        if (row.role, row.is_active) != (role, is_active):
            row.token_version += 1
        if row.role != role:
            record_security_event("role_changed", user=row, actor=actor, before=row.role, after=role)
        if row.is_active != is_active:
            record_security_event("activated" if is_active else "deactivated", user=row, actor=actor)
        if row.email != User.objects.normalize_email(email):
            row.email_verified_at = None
            record_security_event("email_changed", user=row, actor=actor)
        row.name, row.email, row.role, row.is_active = name, User.objects.normalize_email(email), role, is_active
        try:
            with transaction.atomic():
                row.save(update_fields=["name", "email", "email_verified_at", "role", "is_active", "token_version"])
        except IntegrityError:
            raise _email_taken_error() from None
    user.refresh_from_db()


def lock_user_and_admins(*, user_id: int) -> User:
    """Return the user, locked together with all super admins. Raise User.DoesNotExist.

    Of two super admins who remove each other's role, the second waits and then sees the change of the first.
    """
    admins = Q(role=Role.SUPER_ADMIN, is_active=True)
    locked = {row.pk: row for row in User.objects.select_for_update().filter(Q(pk=user_id) | admins).order_by("pk")}
    if user_id not in locked:
        raise User.DoesNotExist
    return locked[user_id]


def lock_active_user(user: User) -> None:
    """Lock the user until the transaction ends, so that nobody deactivates or erases them meanwhile.

    Raise ApiError 401 for a user who is no longer active. Call it in the transaction that writes rows of the user.
    """
    if not User.objects.select_for_update(no_key=True).get(pk=user.pk).is_active:
        raise ApiError(401, "This user is deactivated.", headers={"WWW-Authenticate": "Bearer"})


def would_leave_no_admin(*, user: User, role: Role, is_active: bool) -> bool:
    """Return whether this change to `user` would remove the last active super admin."""
    if role == Role.SUPER_ADMIN and is_active:
        return False
    admins = User.objects.filter(role=Role.SUPER_ADMIN, is_active=True)
    return admins.filter(pk=user.pk).exists() and not admins.exclude(pk=user.pk).exists()


def deactivate_user(*, user: User, actor: User | None = None) -> None:
    """Refuse the tokens and keys of a user from the next request. Nothing is deleted."""
    change_user(user=user, name=user.name, email=user.email, role=Role(user.role), is_active=False, actor=actor)


@transaction.atomic
def create_api_key(
    *,
    user: User,
    name: str,
    permissions: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    actor: User | None = None,
    now: datetime,
) -> tuple[ApiKey, str]:
    """Create an API key and return it with its raw form, which is not stored.

    `permissions` None means all permissions of the role, now and later. Raise ValidationFailed for permissions that the
    role does not have and for an inactive user.
    """
    excess = sorted(set(permissions or ()) - ROLE_PERMISSIONS[Role(user.role)])
    if excess:
        raise ValidationFailed({"permissions": [f"The role of this user does not have: {', '.join(excess)}."]})
    if not user.is_active:
        raise ValidationFailed({"user": ["This user is deactivated."]})
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    key = ApiKey.objects.create(
        user=user,
        name=name,
        key_id=key_id,
        secret_hash=hash_secret(secret),
        permissions=None if permissions is None else sorted(set(permissions)),
        expires_at=expires_at,
        created_at=now,
    )
    _record_key_event("api_key_created", key, actor, permissions=key.permissions, expires_at=expires_at)
    return key, f"{API_KEY_PREFIX}{key_id}_{secret}"


def set_key_limits(
    *,
    api_key: ApiKey,
    requests: int | None,
    tokens: int | None,
    concurrency: int | None,
    monthly_tokens: int | None = None,
) -> None:
    """Set the limits of a key at the model server, per minute and per month. None means the default."""
    ApiKey.objects.filter(pk=api_key.pk).update(
        request_limit=requests,
        token_limit=tokens,
        concurrency_limit=concurrency,
        monthly_token_limit=monthly_tokens,
    )
    api_key.refresh_from_db(fields=["request_limit", "token_limit", "concurrency_limit", "monthly_token_limit"])


def set_monthly_token_limit(*, user: User, tokens: int | None) -> None:
    """Set the tokens a month of a user with all their keys at the model server. None means the default."""
    User.objects.filter(pk=user.pk).update(monthly_token_limit=tokens)
    user.refresh_from_db(fields=["monthly_token_limit"])


def set_inference_access(*, user: User, is_allowed: bool) -> None:
    """Set whether the user may run models. Their tokens and keys lose or gain the permission from the next request."""
    User.objects.filter(pk=user.pk).update(may_run_inference=is_allowed)
    user.refresh_from_db(fields=["may_run_inference"])


def set_attachment_limits(*, user: User, max_bytes: int | None, max_count: int | None) -> None:
    """Set the size and the number of the user's attachments in the shop. None means the default."""
    User.objects.filter(pk=user.pk).update(attachment_byte_limit=max_bytes, attachment_count_limit=max_count)
    user.refresh_from_db(fields=["attachment_byte_limit", "attachment_count_limit"])


@transaction.atomic
def revoke_api_key(*, api_key: ApiKey, actor: User | None = None, now: datetime) -> None:
    """Refuse the key from the next request."""
    if ApiKey.objects.filter(pk=api_key.pk, revoked_at=None).update(revoked_at=now):
        _record_key_event("api_key_revoked", api_key, actor)
    api_key.refresh_from_db(fields=["revoked_at"])


def record_security_event(event: str, *, user: User, actor: User | None, **details: Any) -> None:
    """Add `accounts.EVENT` about a user to the audit log. `actor` is None for an operator on the command line."""
    record_audit_entry(
        action=f"accounts.{event}",
        actor=actor,
        target_type="User",
        target_id=user.pk,
        details=details,
        now=timezone.now(),
    )


def _record_key_event(event: str, key: ApiKey, actor: User | None, **details: Any) -> None:
    record_security_event(event, user=key.user, actor=actor, key_id=key.pk, prefix=key.prefix, **details)


def _start_sign_in(user: User, now: datetime, decision: RateLimitDecision) -> TokenPair:
    SignIn.objects.filter(user=user, expires_at__lte=now).delete()
    sign_in = SignIn.objects.create(
        user=user,
        token_version=user.token_version,
        created_at=now,
        refreshed_at=now,
        expires_at=now + RefreshToken.lifetime,
    )
    return _token_pair(sign_in, now, decision)


def _token_pair(sign_in: SignIn, now: datetime, decision: RateLimitDecision | None = None) -> TokenPair:
    return TokenPair(
        access=str(AccessToken.for_sign_in(sign_in, now=now)),
        refresh=str(RefreshToken.for_sign_in(sign_in, now=now)),
        expires_at=now + AccessToken.lifetime,
        user=sign_in.user,
        rate_limit=decision,
    )


def require_strong_password(password: str, user: User, field: str = "password") -> None:
    """Raise ValidationFailed with this field's name for a password that is too easy to guess."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise ValidationFailed({field: error.messages}) from None


def _email_taken_error() -> ValidationFailed:
    return ValidationFailed({"email": ["A user with this e-mail address already exists."]})
