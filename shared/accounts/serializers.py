"""The wire shapes of signing in and out."""

from typing import Any

from rest_framework import serializers

from shared.accounts.fields import MailboxField, PasswordField
from shared.accounts.roles import SHOP_PERMISSIONS, Role
from shared.accounts.services import TokenPair


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
