"""Access and refresh tokens: JSON Web Tokens (RFC 7519) on simplejwt's classes and `settings.SIMPLE_JWT`.

The backend adds what simplejwt lacks: every claim is required, as RFC 8725 asks, and a token that one of
JWT_KEY_FALLBACKS signed is valid too. Without that, a change of the key would sign everybody out.
"""

import uuid
from datetime import UTC, datetime
from functools import cache
from typing import Any, Self, cast

import jwt
from django.conf import settings
from rest_framework_simplejwt import tokens as simplejwt
from rest_framework_simplejwt.backends import TokenBackend
from rest_framework_simplejwt.exceptions import TokenBackendError, TokenError
from rest_framework_simplejwt.settings import api_settings

from shared.accounts.models import SignIn

REQUIRED_CLAIMS = ["exp", "nbf", "iat", "iss", "aud", "sub", "jti"]


class StrictTokenBackend(TokenBackend):
    """Token backend that requires all claims and exactly our audience, and accepts the keys of JWT_KEY_FALLBACKS."""

    def decode(self, token: Any, verify: bool = True) -> dict[str, Any]:
        """Return the claims of a token whose signature and times are valid. Raise TokenBackendError for any other."""
        for key in (self.prepared_signing_key, *settings.JWT_KEY_FALLBACKS):
            try:
                return jwt.decode(
                    token,
                    key,
                    algorithms=[self.algorithm],
                    audience=self.audience,
                    issuer=self.issuer,
                    options={"require": REQUIRED_CLAIMS, "strict_aud": True},
                )
            except jwt.InvalidSignatureError:
                continue
            except jwt.PyJWTError as error:
                raise TokenBackendError("The token is not valid.") from error
        raise TokenBackendError("The token is signed with an unknown key.")


@cache
def _backend(signing_key: str) -> StrictTokenBackend:
    return StrictTokenBackend(
        api_settings.ALGORITHM, signing_key, audience=api_settings.AUDIENCE, issuer=api_settings.ISSUER
    )


class SignInToken(simplejwt.Token):
    """Token of one sign-in. `AccessToken(raw)` raises TokenError unless `raw` is a valid token of that type.

    The attributes are those of a token that was read; `token_version` is the user's at the time of issue.
    """

    user_id: int
    sign_in_id: uuid.UUID
    token_id: uuid.UUID
    token_version: int
    expires_at: datetime

    def __init__(self, token: str | None = None) -> None:
        super().__init__(cast(Any, token))  # simplejwt's annotation says Token, its code takes a string

    @classmethod
    def for_sign_in(cls, sign_in: SignIn, *, now: datetime) -> Self:
        """Return a new token of this sign-in, valid from `now` for the lifetime of its type."""
        token = cls.for_user(sign_in.user)
        token.set_iat(at_time=now)
        token.set_iat("nbf", at_time=now)
        token.set_exp(from_time=now)
        token["family"] = sign_in.id.hex
        token["version"] = sign_in.user.token_version
        return token

    def verify(self) -> None:
        """Check the type and read the claims. Raise TokenError for a claim that is missing or malformed."""
        try:
            super().verify()
            self.user_id = int(self["sub"])
            self.sign_in_id = uuid.UUID(hex=self["family"])
            self.token_id = uuid.UUID(hex=self["jti"])
            self.token_version = int(self["version"])
            self.expires_at = datetime.fromtimestamp(self["exp"], UTC)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise TokenError("The token has a malformed claim.") from error

    @property
    def token_backend(self) -> TokenBackend:
        return _backend(settings.SIMPLE_JWT["SIGNING_KEY"])


class AccessToken(SignInToken, simplejwt.AccessToken):
    """Credential of requests, for minutes. The access tokens of one pair and one moment are equal."""

    @classmethod
    def for_sign_in(cls, sign_in: SignIn, *, now: datetime) -> Self:
        token = super().for_sign_in(sign_in, now=now)
        token["jti"] = uuid.uuid5(sign_in.refresh_id, "access").hex
        return token


class RefreshToken(SignInToken, simplejwt.RefreshToken):  # type: ignore[misc]
    """Credential that is exchanged once for a new pair of tokens."""

    @classmethod
    def for_sign_in(cls, sign_in: SignIn, *, now: datetime) -> Self:
        token = super().for_sign_in(sign_in, now=now)
        token["jti"] = sign_in.refresh_id.hex
        return token
