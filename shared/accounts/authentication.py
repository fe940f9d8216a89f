"""Authentication by access token or API key, for HTTP views, DRF, WebSockets and the command line.

Every call reads the row of the credential. A revoked key, an ended sign-in, a deactivated user and a changed role or
password therefore count from the next request.
"""

import contextlib
import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import Error, transaction
from django.db.models import Q
from django.utils import timezone
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework_simplejwt.authentication import JWTAuthentication
from rest_framework_simplejwt.exceptions import TokenError

from shared.accounts.models import ApiKey, SignIn, User
from shared.accounts.roles import ROLE_PERMISSIONS, Permission, Role
from shared.accounts.tokens import AccessToken
from shared.api.errors import ApiError
from shared.observability.request_fields import current_fields
from shared.request_threads import run_in_request_thread
from shared.serving.asgi.threads import release_request_thread
from shared.sqlite.base import fail_if_locked

API_KEY_PREFIX = "stoa_"
MAX_CREDENTIAL_LENGTH = 4096
REFUSED_CREDENTIAL_SECONDS = 60.0
MAX_REFUSED_CREDENTIALS = 10_000
LAST_USED_RESOLUTION = timedelta(minutes=1)


class NotAuthenticated(ApiError):
    """401 with one message for every reason, so that it does not tell which credentials exist."""

    def __init__(self) -> None:
        super().__init__(
            401,
            "The credentials are missing, wrong, expired or revoked. Sign in again, or send a valid API key.",
            headers={"WWW-Authenticate": "Bearer"},
        )


@dataclass(frozen=True, kw_only=True)
class Principal:
    """Authenticated user with the credential of the request and its permissions.

    `expires_at` is the end of the credential, or None.
    """

    user: User
    permissions: frozenset[str]
    api_key: ApiKey | None = None
    sign_in: SignIn | None = None
    expires_at: datetime | None = None

    def has_permission(self, permission: str) -> bool:
        return permission in self.permissions

    @property
    def has_full_role(self) -> bool:
        """Return False for a key with named permissions, which does not have the role of its user."""
        return self.api_key is None or self.api_key.permissions is None

    @property
    def user_with_full_role(self) -> User | None:
        """Return the user, or None for a key with named permissions."""
        return self.user if self.has_full_role else None


def credential_from_headers(headers: Mapping[str, str]) -> str | None:
    """Return the credential of `Authorization: Bearer`, else of `X-API-Key`, else None.

    URLs, cookies and bodies never carry one. `headers` has lower-case names, or ignores case.
    """
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key", "").strip() or None


def authenticate(credential: str) -> Principal:
    """Return the principal of an access token or an API key. Raise NotAuthenticated for any other credential."""
    if len(credential) > MAX_CREDENTIAL_LENGTH or not credential.isascii():
        raise NotAuthenticated
    verify = _authenticate_api_key if credential.startswith(API_KEY_PREFIX) else _authenticate_access_token
    principal = verify(credential, timezone.now())
    _add_log_fields(principal)
    return principal


async def aauthenticate(credential: str) -> Principal:
    """Run `authenticate` from the event loop, and release its thread and database connection."""
    try:
        return await run_in_request_thread(authenticate, credential)
    finally:
        release_request_thread()


def hash_secret(secret: str) -> str:
    """Return the SHA-256 to store: the secret is long and random, and every request computes it."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _authenticate_access_token(raw: str, now: datetime) -> Principal:
    try:
        token = AccessToken(raw)
    except TokenError:
        raise NotAuthenticated from None
    if raw in refused_tokens:
        raise NotAuthenticated
    sign_in = SignIn.objects.select_related("user").filter(id=token.sign_in_id).first()
    if sign_in is None or sign_in.revoked_at:  # revoked ones are deleted within the hour
        refused_tokens.add(raw)
        raise NotAuthenticated
    if sign_in.expires_at <= now:
        raise NotAuthenticated
    user = sign_in.user
    if user.id != token.user_id or not user.is_active or user.token_version != token.token_version:
        raise NotAuthenticated
    return Principal(user=user, permissions=_user_permissions(user), sign_in=sign_in, expires_at=token.expires_at)


class RefusedCredentials:
    """Digests of unknown and revoked API keys, or of tokens of ended sign-ins, refused for a minute without a query.

    None becomes valid again. Keys and tokens of deactivated users and expired keys may, so they are not among these.
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def __contains__(self, raw: str) -> bool:
        return self._until.get(hash_secret(raw), 0.0) > time.monotonic()

    def add(self, raw: str) -> None:
        if len(self._until) >= MAX_REFUSED_CREDENTIALS:
            self._until.clear()
        self._until[hash_secret(raw)] = time.monotonic() + REFUSED_CREDENTIAL_SECONDS


refused_api_keys, refused_tokens = RefusedCredentials(), RefusedCredentials()


def find_api_key(raw: str) -> ApiKey | None:
    """Return the API key of this raw form, or None if it is unknown or revoked."""
    if raw in refused_api_keys:
        return None
    key = _load_api_key(raw)
    if key is None or key.revoked_at:
        refused_api_keys.add(raw)
        return None
    return key


def _load_api_key(raw: str) -> ApiKey | None:
    key_id, _, secret = raw.removeprefix(API_KEY_PREFIX).partition("_")
    key = ApiKey.objects.select_related("user").filter(key_id=key_id).first()
    return key if key and hmac.compare_digest(key.secret_hash, hash_secret(secret)) else None


def _authenticate_api_key(raw: str, now: datetime) -> Principal:
    key = find_api_key(raw)
    if key is None:
        raise NotAuthenticated
    if (key.expires_at and key.expires_at <= now) or not key.user.is_active:
        raise NotAuthenticated
    _update_last_used_at(key, now)
    permissions = _user_permissions(key.user)
    if key.permissions is not None:
        permissions &= frozenset(key.permissions)
    return Principal(user=key.user, permissions=permissions, api_key=key, expires_at=key.expires_at)


def _user_permissions(user: User) -> frozenset[str]:
    permissions = ROLE_PERMISSIONS[Role(user.role)]
    return permissions if user.may_run_inference else permissions - {Permission.RUN_INFERENCE}


def _add_log_fields(principal: Principal) -> None:
    """Add user and API key to the log line and the trace of the request."""
    fields = current_fields()
    fields["user_id"] = principal.user.pk
    if principal.api_key:
        fields["api_key_id"] = principal.api_key.pk


def _update_last_used_at(key: ApiKey, now: datetime) -> None:
    """Store the time of use, once a minute.

    A locked row or a failed write never delays or refuses the request: the next request of the key tries again.
    """
    if key.last_used_at and key.last_used_at > now - LAST_USED_RESOLUTION:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lte=now - LAST_USED_RESOLUTION)
    free = ApiKey.objects.select_for_update(skip_locked=True, no_key=True).filter(stale, pk=key.pk)
    with contextlib.suppress(Error), fail_if_locked(), transaction.atomic():
        ApiKey.objects.filter(pk__in=free).update(last_used_at=now)


class BearerAuthentication(JWTAuthentication):
    """DRF authentication by an access token or an API key; `request.auth` is the Principal.

    A read with an invalid credential is anonymous: public ones succeed, and the permissions of others answer 401.
    """

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:  # type: ignore[override]
        credential = credential_from_headers(request.headers)
        if credential is None:
            return None
        try:
            principal = authenticate(credential)
        except NotAuthenticated:
            if request.method in SAFE_METHODS:
                return None
            raise
        return principal.user, principal

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"
