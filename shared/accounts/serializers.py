"""The wire shapes of signing in and out."""

from typing import Any

from rest_framework import serializers

from shared.accounts.roles import SHOP_PERMISSIONS, Role
from shared.accounts.services import TokenPair

LONGEST_PASSWORD = 1024


class PasswordField(serializers.CharField):
    """As it was typed: spaces at its ends count."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=LONGEST_PASSWORD, trim_whitespace=False, write_only=True, **kwargs)


class MailboxField(serializers.EmailField):
    """An address that letters can be written to: quotes may hold spaces and control characters, which break them."""

    def to_internal_value(self, data: Any) -> str:
        address: str = super().to_internal_value(data)
        if '"' in address or not address.isprintable():
            raise serializers.ValidationError("Enter an address without quotes and control characters.")
        return address


class CredentialsSerializer(serializers.Serializer[Any]):
    email = serializers.CharField(max_length=254)
    password = PasswordField()


class RefreshSerializer(serializers.Serializer[Any]):
    refresh = serializers.CharField(max_length=4096)


class LogoutSerializer(serializers.Serializer[Any]):
    refresh = serializers.CharField(max_length=4096, required=False, allow_null=True, allow_blank=True)


class RegistrationSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=150)
    email = MailboxField()
    password = PasswordField()
    permission = serializers.ChoiceField(choices=[role.value.lower() for role in Role], default="customer")

    def validate_permission(self, value: str) -> Role:
        return Role(value.upper())


class ChangePasswordSerializer(serializers.Serializer[Any]):
    old = PasswordField()
    new = PasswordField()


class ForgetPasswordSerializer(serializers.Serializer[Any]):
    email = serializers.CharField(max_length=254)


class LinkSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(max_length=1024)


class ResetPasswordSerializer(LinkSerializer):
    password = PasswordField()


class TokenPairSerializer(serializers.Serializer[TokenPair]):
    """What a sign-in answers."""

    token = serializers.CharField(source="access")
    refresh = serializers.CharField()
    expires_at = serializers.DateTimeField()
    permissions = serializers.SerializerMethodField()
    role = serializers.CharField(source="user.role")
    email_verified = serializers.SerializerMethodField()

    def get_permissions(self, pair: TokenPair) -> list[str]:
        return list(SHOP_PERMISSIONS[Role(pair.user.role)])

    def get_email_verified(self, pair: TokenPair) -> bool:
        return pair.user.email_verified_at is not None
