"""Serializers of sign-in, registration and passwords."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from shared.accounts.models import SignIn
from shared.accounts.roles import SHOP_PERMISSIONS, Role
from shared.accounts.services import TokenPair
from shared.api.fields import EmailAddressField, PasswordField

MAX_CODE_LENGTH = 64
TOKEN_HELP_TEXT = "Token of the link in the e-mail."  # noqa: S105


@extend_schema_field({"type": "string", "maxLength": MAX_CODE_LENGTH, "example": "492039"})
class CodeField(serializers.CharField):
    """A code of the second factor."""


class CredentialsSerializer(serializers.Serializer[Any]):
    email = serializers.CharField(max_length=254, help_text="E-mail address of the account.")
    password = PasswordField(help_text="Password of the account.")
    otp = CodeField(
        max_length=MAX_CODE_LENGTH,
        required=False,
        allow_blank=True,
        help_text="Code of the authenticator app, or a recovery code, for accounts with a second factor.",
    )


class RefreshSerializer(serializers.Serializer[Any]):
    refresh = serializers.CharField(max_length=4096, help_text="Refresh token of the last pair.")


class LogoutSerializer(serializers.Serializer[Any]):
    refresh = serializers.CharField(
        max_length=4096,
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="Refresh token of another sign-in of yours, to end it too.",
    )


class RegistrationSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=150, help_text="Name of the user.")
    email = EmailAddressField(max_length=254, help_text="E-mail address to sign in with.")
    password = PasswordField(help_text="Password of at least 8 characters.")
    permission = serializers.ChoiceField(
        choices=[role.value.lower() for role in Role],
        default="customer",
        help_text="Role of the user; only `customer` and `store_owner` can be chosen.",
    )

    def validate_permission(self, value: str) -> Role:
        return Role(value.upper())


class ChangePasswordSerializer(serializers.Serializer[Any]):
    """The two passwords, also under the names that some clients send."""

    ALIASES: ClassVar = {"oldPassword": "old", "newPassword": "new"}

    old = PasswordField(help_text="Present password; `oldPassword` is accepted too.")
    new = PasswordField(help_text="New password of at least 8 characters; `newPassword` is accepted too.")

    @classmethod
    def has_aliases(cls, data: Iterable[str]) -> bool:
        """Return whether a body has such a name. These clients read `success` in the response."""
        return not cls.ALIASES.keys().isdisjoint(data)

    @classmethod
    def rename_errors(cls, errors: Mapping[str, list[str]], data: Collection[str]) -> dict[str, list[str]]:
        """Return errors by the names that the body has: such clients show an error beside the field of its name."""
        sent = {name: alias for alias, name in cls.ALIASES.items() if alias in data}
        return {sent.get(name, name): texts for name, texts in errors.items()}

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            data = {name: data[alias] for alias, name in self.ALIASES.items() if alias in data} | dict(data)
        return super().to_internal_value(data)


class ForgetPasswordSerializer(serializers.Serializer[Any]):
    email = serializers.CharField(max_length=254, help_text="E-mail address of the account.")


class LinkSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(max_length=1024, help_text=TOKEN_HELP_TEXT)


class ResetPasswordSerializer(LinkSerializer):
    password = PasswordField(help_text="New password of at least 8 characters.")


class TokenPairSerializer(serializers.Serializer[TokenPair]):
    """Token pair of a sign-in, with the role of its user."""

    token = serializers.CharField(source="access", help_text="Access token for the Authorization header.")
    refresh = serializers.CharField(help_text="Refresh token, which works once.")
    expires_at = serializers.DateTimeField(help_text="When the access token expires.")
    permissions = serializers.SerializerMethodField(help_text="Role names in lower case that the user acts with.")
    role = serializers.CharField(source="user.role", help_text="Role of the user.")
    email_verified = serializers.SerializerMethodField(help_text="Whether the e-mail address is confirmed.")

    def get_permissions(self, pair: TokenPair) -> list[str]:
        return list(SHOP_PERMISSIONS[Role(pair.user.role)])

    def get_email_verified(self, pair: TokenPair) -> bool:
        return pair.user.email_verified_at is not None


class SessionSerializer(serializers.ModelSerializer[SignIn]):
    """A sign-in whose tokens are valid."""

    is_current = serializers.SerializerMethodField(help_text="Whether this request used a token of this sign-in.")

    class Meta:
        model = SignIn
        fields = ["id", "created_at", "refreshed_at", "expires_at", "is_current"]
        extra_kwargs = {
            "id": {"help_text": "Id of the sign-in."},
            "refreshed_at": {"help_text": "When its tokens were last refreshed."},
            "expires_at": {"help_text": "When it ends unless its tokens are refreshed."},
        }

    def get_is_current(self, sign_in: SignIn) -> bool:
        return bool(sign_in == self.context["current"])
