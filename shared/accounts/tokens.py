"""Access and refresh tokens: JSON Web Tokens (RFC 7519) signed with HMAC-SHA-256 by this installation's key.

They are read as RFC 8725 asks: one algorithm, every claim required, one kind never taken for the other. A token that
one of JWT_KEY_FALLBACKS has signed is as good as one of today's key, so that a change of the key signs nobody out.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import jwt
from django.conf import settings

ALGORITHM = "HS256"
_REQUIRED = ["exp", "nbf", "iat", "iss", "aud", "sub", "jti"]


class TokenKind(StrEnum):
    ACCESS = "access"
    REFRESH = "refresh"


class InvalidToken(Exception):
    """Not a token of ours, of this kind, or no longer in its time."""


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What a token says. `version` is the user's `token_version` when it was made; `expires_at` is known of a token
    that was read."""

    user_id: int
    sign_in_id: uuid.UUID
    token_id: uuid.UUID
    version: int
    expires_at: datetime | None = None


def encode(claims: Claims, kind: TokenKind, *, now: datetime, lifetime: timedelta) -> str:
    """A signed token, good from `now` until `now + lifetime`."""
    payload = {
        "iss": settings.JWT_ISSUER,
        "aud": settings.JWT_ISSUER,
        "sub": str(claims.user_id),
        "jti": claims.token_id.hex,
        "iat": now,
        "nbf": now,
        "exp": now + lifetime,
        "kind": kind,
        "family": claims.sign_in_id.hex,
        "version": claims.version,
    }
    return jwt.encode(payload, settings.JWT_KEY, algorithm=ALGORITHM)


def decode(token: str, kind: TokenKind) -> Claims:
    """The claims of a token of this kind. Raises InvalidToken."""
    try:
        payload = _payload(token, [settings.JWT_KEY, *settings.JWT_KEY_FALLBACKS])
        if payload["kind"] != kind:
            raise InvalidToken(f"This is no {kind} token.")
        return Claims(
            user_id=int(payload["sub"]),
            sign_in_id=uuid.UUID(hex=payload["family"]),
            token_id=uuid.UUID(hex=payload["jti"]),
            version=int(payload["version"]),
            expires_at=datetime.fromtimestamp(payload["exp"], UTC),
        )
    except (jwt.PyJWTError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidToken("This token is not valid.") from error


def _payload(token: str, keys: Sequence[str]) -> dict[str, Any]:
    """What the token says, whichever of the keys has signed it."""
    key, *others = keys
    try:
        return jwt.decode(
            token,
            key,
            algorithms=[ALGORITHM],
            audience=settings.JWT_ISSUER,
            issuer=settings.JWT_ISSUER,
            options={"require": _REQUIRED, "strict_aud": True},
        )
    except jwt.InvalidSignatureError:
        if not others:
            raise
        return _payload(token, others)
