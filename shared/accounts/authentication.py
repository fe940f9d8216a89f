"""Who a credential speaks for: the one answer for HTTP views, DRF, WebSockets and the command line.

A credential is an access token or an API key. Every call reads its row, so that a revoked key, a signed-out token, a
deactivated user and a changed role or password count from the next request.
"""

import contextlib
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from asgiref.sync import sync_to_async
from django.db import Error, connection, transaction
from django.db.models import Q
from django.utils import timezone
from rest_framework.request import Request
from rest_framework_simplejwt.authentication import JWTAuthentication
from rest_framework_simplejwt.exceptions import TokenError

from shared.accounts.models import ApiKey, SignIn, User
from shared.accounts.roles import ROLE_PERMISSIONS, Role
from shared.accounts.tokens import AccessToken
from shared.api.errors import ApiError
from shared.observability.request_fields import current_fields
from shared.serving.asgi.threads import release_request_thread
from shared.sqlite.base import fail_if_locked

API_KEY_PREFIX = "stoa_"
MAX_CREDENTIAL_LENGTH = 4096
LAST_USED_RESOLUTION = timedelta(minutes=1)


class NotAuthenticated(ApiError):
    """401, with one message for every reason: which one it was is nobody's business."""

    def __init__(self) -> None:
        super().__init__(
            401,
            "The credentials are missing, wrong, expired or revoked. Sign in again, or send a valid API key.",
            headers={"WWW-Authenticate": "Bearer"},
        )


@dataclass(frozen=True, kw_only=True)
class Principal:
    """Who asks, by which credential, and what they may do with it. `expires_at`: the credential's end, if any."""

    user: User
    permissions: frozenset[str]
    api_key: ApiKey | None = None
    sign_in: SignIn | None = None
    expires_at: datetime | None = None

    def has_permission(self, permission: str) -> bool:
        return permission in self.permissions

    @property
    def has_full_role(self) -> bool:
        """False for a key that carries named permissions only: it does not speak for its user's role."""
        return self.api_key is None or self.api_key.permissions is None

    @property
    def user_with_full_role(self) -> User | None:
        """The user, unless a key carries named permissions only."""
        return self.user if self.has_full_role else None


def credential_from_headers(headers: Mapping[str, str]) -> str | None:
    """The credential in `Authorization: Bearer`, else in `X-API-Key`; None where there is none. A bare `Bearer` is
    none. URLs, cookies and bodies are never looked at. `headers` has lower-case names, or ignores case."""
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key", "").strip() or None


def authenticate(credential: str) -> Principal:
    """Who an access token or an API key speaks for. Raises NotAuthenticated."""
    if len(credential) > MAX_CREDENTIAL_LENGTH or not credential.isascii():
        raise NotAuthenticated
    read = _authenticate_api_key if credential.startswith(API_KEY_PREFIX) else _authenticate_access_token
    principal = read(credential, timezone.now())
    _add_log_fields(principal)
    return principal


async def aauthenticate(credential: str) -> Principal:
    """`authenticate` for the event loop. Connection and thread are free for others at once: the request that was let in
    may last for minutes, and there are more of those than of these."""
    try:
        return await sync_to_async(_authenticate_and_disconnect)(credential)
    finally:
        release_request_thread()


def _authenticate_and_disconnect(credential: str) -> Principal:
    try:
        return authenticate(credential)
    finally:
        if not connection.in_atomic_block:  # as it is where tests roll back what they wrote
            connection.close()


def hash_secret(secret: str) -> str:
    """A key's secret is random and long: a plain SHA-256 keeps it, and is quick enough for every request."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _authenticate_access_token(raw: str, now: datetime) -> Principal:
    try:
        token = AccessToken(raw)
    except TokenError:
        raise NotAuthenticated from None
    sign_in = SignIn.objects.select_related("user").filter(id=token.sign_in_id, revoked_at=None).first()
    if sign_in is None or sign_in.expires_at <= now:
        raise NotAuthenticated
    user = sign_in.user
    if user.id != token.user_id or not user.is_active or user.token_version != token.token_version:
        raise NotAuthenticated
    return Principal(user=user, permissions=_role_permissions(user), sign_in=sign_in, expires_at=token.expires_at)


def find_api_key(raw: str) -> ApiKey | None:
    """The key with this raw form, revoked or not; None where it is nobody's."""
    key_id, _, secret = raw.removeprefix(API_KEY_PREFIX).partition("_")
    key = ApiKey.objects.select_related("user").filter(key_id=key_id).first()
    return key if key and hmac.compare_digest(key.secret_hash, hash_secret(secret)) else None


def _authenticate_api_key(raw: str, now: datetime) -> Principal:
    key = find_api_key(raw)
    if key is None:
        raise NotAuthenticated
    if key.revoked_at or (key.expires_at and key.expires_at <= now) or not key.user.is_active:
        raise NotAuthenticated
    _update_last_used_at(key, now)
    permissions = _role_permissions(key.user)
    if key.permissions is not None:
        permissions &= frozenset(key.permissions)
    return Principal(user=key.user, permissions=permissions, api_key=key, expires_at=key.expires_at)


def _role_permissions(user: User) -> frozenset[str]:
    return frozenset(ROLE_PERMISSIONS[Role(user.role)])


def _add_log_fields(principal: Principal) -> None:
    """For the request's log line and its trace."""
    notes = current_fields()
    notes["user_id"] = principal.user.pk
    if principal.api_key:
        notes["api_key_id"] = principal.api_key.pk


def _update_last_used_at(key: ApiKey, now: datetime) -> None:
    """Not now where the row or the database is somebody else's, or nothing can be written: who reads is neither held
    up nor refused, and the key's next request tries again."""
    if key.last_used_at and key.last_used_at > now - LAST_USED_RESOLUTION:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lte=now - LAST_USED_RESOLUTION)
    free = ApiKey.objects.select_for_update(skip_locked=True, no_key=True).filter(stale, pk=key.pk)
    with contextlib.suppress(Error), fail_if_locked(), transaction.atomic():
        ApiKey.objects.filter(pk__in=free).update(last_used_at=now)


class BearerAuthentication(JWTAuthentication):
    """DRF authentication by an access token or an API key; `request.auth` is the Principal."""

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:  # type: ignore[override]
        credential = credential_from_headers(request.headers)
        if credential is None:
            return None
        principal = authenticate(credential)
        return principal.user, principal

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"
