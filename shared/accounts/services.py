"""Every write to accounts: people, sign-ins, keys. The clock is passed in; errors are ApiErrors."""

import secrets
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

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
from shared.accounts.tokens import AccessToken, RefreshToken
from shared.api.errors import ApiError, ValidationFailed
from shared.api.limits.rate_limits import RateLimitDecision, address_key, hit, raise_if_limited, rate_limit_headers

LAST_ADMIN_ERROR = "This is the last active super admin: make another one first."


@dataclass(frozen=True, kw_only=True)
class TokenPair:
    """A fresh access and refresh token. `expires_at` is the access token's end; `rate_limit` what is left of the
    sign-in limit, where one was counted."""

    access: str
    refresh: str
    expires_at: datetime
    user: User
    rate_limit: RateLimitDecision | None = None


def create_user(*, email: str, name: str, password: str | None, role: Role, now: datetime) -> User:
    """A new active user; without a password, one who cannot sign in. Raises ValidationFailed: e-mail taken, weak
    password."""
    user = User(email=User.objects.normalize_email(email), name=name, role=role, created_at=now)
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
    """A new customer or store owner, signed in, with a letter on its way that asks them to confirm their e-mail.
    Raises ApiError 403 for another role, 429, ValidationFailed."""
    if role not in (Role.CUSTOMER, Role.STORE_OWNER):
        raise ApiError(403, "Only customers and store owners register themselves; others are invited.")
    decision = hit("register", address_key(address), limit=settings.LOGIN_LIMIT, strict=True)
    raise_if_limited(decision)
    user = create_user(email=email, name=name, password=password, role=role, now=now)
    message = address_verification_email(user.email, create_link_token(user, LinkPurpose.VERIFY_EMAIL, now=now))
    transaction.on_commit(lambda: email_outbox.send(message))
    return _start_sign_in(user, now, decision)


def sign_in(*, email: str, password: str, address: str, now: datetime) -> TokenPair:
    """Tokens for the right pair. Raises ApiError 401, the same for every wrong pair; 429 before any hashing."""
    user, decision = check_credentials(email=email, password=password, address=address)
    return _start_sign_in(user, now, decision)


def check_credentials(*, email: str, password: str, address: str) -> tuple[User, RateLimitDecision]:
    """The active user of this pair, and what is left of the limits. Raises as `sign_in` does. An unknown, an inactive
    and a known user with a wrong password cost the same and look the same."""
    email = User.objects.normalize_email(email)
    decision = _limit_sign_in(email, address)
    user = User.objects.filter(email=email).first()
    if not password_matches(user, password) or user is None or not user.is_active:
        raise ApiError(
            401,
            "The e-mail or the password is wrong.",
            headers={"WWW-Authenticate": "Bearer"} | rate_limit_headers(decision),
        )
    return user, decision


def refresh_tokens(*, refresh: str, now: datetime) -> TokenPair:
    """A new pair for a refresh token, which is good for one. Raises NotAuthenticated.

    Of many uses at once one wins. A use that came (`now`) after the token had been used is a copy in other hands: it
    ends the sign-in for everybody.
    """
    try:
        token = RefreshToken(refresh)
    except TokenError:
        raise NotAuthenticated from None
    sign_in = SignIn.objects.select_related("user").filter(id=token.sign_in_id, revoked_at=None).first()
    if sign_in is None or not sign_in.user.is_active or sign_in.user.token_version != token.token_version:
        raise NotAuthenticated
    sign_in.refresh_id = uuid.uuid4()
    won = SignIn.objects.filter(id=sign_in.id, refresh_id=token.token_id, revoked_at=None).update(
        refresh_id=sign_in.refresh_id,
        refreshed_at=timezone.now(),  # not `now`: whoever came before this very moment lost a race, and copied nothing
        expires_at=now + RefreshToken.lifetime,
    )
    if not won:
        SignIn.objects.filter(id=sign_in.id, revoked_at=None, refreshed_at__lt=now).update(revoked_at=now)
        raise NotAuthenticated
    return _token_pair(sign_in, now)


def sign_out(*, principal: Principal, refresh: str | None, now: datetime) -> None:
    """Ends the sign-in that the caller's access token came from, and the one of `refresh`: all their tokens at once."""
    ended = {principal.sign_in.id} if principal.sign_in else set()
    if refresh:
        with suppress(TokenError):  # what is no token needs no ending
            ended.add(RefreshToken(refresh).sign_in_id)
    SignIn.objects.filter(id__in=ended, user=principal.user, revoked_at=None).update(revoked_at=now)


def change_password(*, user: User, old: str, new: str) -> RateLimitDecision:
    """Sets a new password; every earlier token is refused. Raises ValidationFailed: `old` is wrong, `new` is weak;
    ApiError 429 before any hashing. Answers what is left of the limit."""
    decision = hit("change-password", str(user.pk), limit=settings.LOGIN_LIMIT, strict=True)
    raise_if_limited(decision)
    if not password_matches(user, old):
        raise ValidationFailed({"old": ["This is not your password."]})
    require_strong_password(new, user, field="new")
    set_password(user=user, password=new)
    return decision


def set_password(*, user: User, password: str) -> None:
    """As an administrator does, without the old one; every earlier token is refused."""
    user.password = hash_password(password)
    User.objects.filter(pk=user.pk).update(password=user.password, token_version=F("token_version") + 1)
    user.refresh_from_db(fields=["token_version"])


def change_user(*, user: User, name: str, email: str, role: Role, is_active: bool) -> None:
    """An administrator's edit. A new role, or a change of `is_active`, refuses every earlier token; a new e-mail is
    not confirmed.
    Raises ValidationFailed: e-mail taken, or nobody would be left to administer."""
    with transaction.atomic():
        row = lock_user_and_admins(user_id=user.pk)
        if would_leave_no_admin(user=row, role=role, is_active=is_active):
            raise ValidationFailed({"role": [LAST_ADMIN_ERROR]})
        if (row.role, row.is_active) != (role, is_active):
            row.token_version += 1
        if row.email != User.objects.normalize_email(email):
            row.email_verified_at = None
        row.name, row.email, row.role, row.is_active = name, User.objects.normalize_email(email), role, is_active
        try:
            with transaction.atomic():
                row.save(update_fields=["name", "email", "email_verified_at", "role", "is_active", "token_version"])
        except IntegrityError:
            raise _email_taken_error() from None
    user.refresh_from_db()


def lock_user_and_admins(*, user_id: int) -> User:
    """The account, locked together with all super admins: of two who take each other's role away, one waits, and sees
    then what the other has done. Raises User.DoesNotExist."""
    admins = Q(role=Role.SUPER_ADMIN, is_active=True)
    locked = {row.pk: row for row in User.objects.select_for_update().filter(Q(pk=user_id) | admins).order_by("pk")}
    if user_id not in locked:
        raise User.DoesNotExist
    return locked[user_id]


def lock_active_user(user: User) -> None:
    """Until the transaction ends nobody deactivates or erases them, nor is this done twice at once. What came in from
    who is deactivated or erased since is refused: ApiError 401. Call it in the transaction that writes what is theirs.
    """
    if not User.objects.select_for_update(no_key=True).get(pk=user.pk).is_active:
        raise ApiError(401, "This user is deactivated.", headers={"WWW-Authenticate": "Bearer"})


def would_leave_no_admin(*, user: User, role: Role, is_active: bool) -> bool:
    """Whether this change to `user` would take away the last active super admin."""
    if role == Role.SUPER_ADMIN and is_active:
        return False
    admins = User.objects.filter(role=Role.SUPER_ADMIN, is_active=True)
    return admins.filter(pk=user.pk).exists() and not admins.exclude(pk=user.pk).exists()


def deactivate_user(*, user: User) -> None:
    """Refuses this user's tokens and keys from the next request on; nothing is deleted."""
    change_user(user=user, name=user.name, email=user.email, role=Role(user.role), is_active=False)


def create_api_key(
    *,
    user: User,
    name: str,
    permissions: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    now: datetime,
) -> tuple[ApiKey, str]:
    """A key for `user`, and its raw form, which is not kept. `permissions` None: all that the user's role has, now
    and later. Raises ValidationFailed for more than the role has, or an inactive user."""
    excess = sorted(set(permissions or ()) - ROLE_PERMISSIONS[Role(user.role)])
    if excess:
        raise ValidationFailed({"permissions": [f"This user's role does not have: {', '.join(excess)}."]})
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
    return key, f"{API_KEY_PREFIX}{key_id}_{secret}"


def set_key_limits(
    *,
    api_key: ApiKey,
    requests: int | None,
    tokens: int | None,
    concurrency: int | None,
    monthly_tokens: int | None = None,
) -> None:
    """What the model server lets the key do from now on, within a minute; None: its default."""
    ApiKey.objects.filter(pk=api_key.pk).update(
        request_limit=requests,
        token_limit=tokens,
        concurrency_limit=concurrency,
        monthly_token_limit=monthly_tokens,
    )
    api_key.refresh_from_db(fields=["request_limit", "token_limit", "concurrency_limit", "monthly_token_limit"])


def set_monthly_token_limit(*, user: User, tokens: int | None) -> None:
    """How many tokens a month the model server lets them use from now on, with all their keys; None: its default."""
    User.objects.filter(pk=user.pk).update(monthly_token_limit=tokens)
    user.refresh_from_db(fields=["monthly_token_limit"])


def revoke_api_key(*, api_key: ApiKey, now: datetime) -> None:
    """Refuses the key from the next request on."""
    ApiKey.objects.filter(pk=api_key.pk, revoked_at=None).update(revoked_at=now)
    api_key.refresh_from_db(fields=["revoked_at"])


def _limit_sign_in(email: str, address: str) -> RateLimitDecision:
    """Counts a try for the address, and then for the account; answers the tighter of the two. Raises ApiError 429, or
    503 where the limits cannot be counted."""
    by_address = hit("sign-in-address", address_key(address), limit=settings.LOGIN_LIMIT, strict=True)
    raise_if_limited(by_address)
    by_account = hit("sign-in-account", email, limit=settings.LOGIN_LIMIT, strict=True)
    raise_if_limited(by_account)
    return min(by_address, by_account, key=lambda decision: decision.remaining)


def _start_sign_in(user: User, now: datetime, decision: RateLimitDecision) -> TokenPair:
    SignIn.objects.filter(user=user, expires_at__lte=now).delete()
    sign_in = SignIn.objects.create(user=user, created_at=now, refreshed_at=now, expires_at=now + RefreshToken.lifetime)
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
    """Raises ValidationFailed, under this field's name, for a password that is too easy to guess."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise ValidationFailed({field: error.messages}) from None


def _email_taken_error() -> ValidationFailed:
    return ValidationFailed({"email": ["Somebody has registered with this e-mail before."]})
