"""Users, their API keys and their sign-ins."""

import uuid
from datetime import datetime
from typing import Any, ClassVar, Self

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone

from shared.accounts.roles import Role


class UserManager(BaseUserManager["User"]):
    """Lookups by e-mail address. `services.create_user` creates users."""

    @classmethod
    def normalize_email(cls, email: str | None) -> str:
        """Return the address in lower case: two addresses never differ by case alone."""
        return (email or "").strip().lower()

    def get_by_natural_key(self, username: str | None) -> "User":
        return self.get(email=self.normalize_email(username))

    def create_superuser(self, email: str, name: str, password: str | None = None) -> "User":
        """Create a super admin, for Django's `createsuperuser` command."""
        user = self.model(email=self.normalize_email(email), name=name, role=Role.SUPER_ADMIN)
        user.set_password(password)
        user.save()
        return user


class User(AbstractBaseUser):
    """A person. Users are deactivated and never deleted, because orders, reports and keys refer to them."""

    email = models.EmailField(unique=True)
    name = models.CharField(max_length=150)
    role = models.CharField(max_length=20, choices=Role, default=Role.CUSTOMER)
    is_active = models.BooleanField("active", default=True, help_text="Off: every token and key is refused at once.")
    email_verified_at = models.DateTimeField(null=True, blank=True)
    token_version = models.PositiveIntegerField(default=0, editable=False)  # increased to refuse every earlier token
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    # At the model server, with all keys of the user. Empty: its default.
    monthly_token_limit = models.PositiveBigIntegerField("tokens a month", null=True, blank=True)
    may_run_inference = models.BooleanField("may use the model server", default=True, db_default=True)
    # In the shop. Empty: the settings' quotas.
    attachment_byte_limit = models.PositiveBigIntegerField("bytes of attachments", null=True, blank=True)
    attachment_count_limit = models.PositiveIntegerField("number of attachments", null=True, blank=True)

    objects: ClassVar[UserManager] = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS = ["name"]

    class Meta:
        ordering = ["email"]
        constraints = [
            models.CheckConstraint(condition=models.Q(email=Lower("email")), name="accounts_user_email_lower"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="accounts_user_role_known"),
        ]
        indexes = [
            # The admin searches by the beginning of a name.
            models.Index(fields=["name"], opclasses=["varchar_pattern_ops"], name="accounts_user_name"),
            models.Index(fields=["role", "email"], name="accounts_user_by_role"),
            models.Index(fields=["name", "id"], name="accounts_user_by_name"),
            models.Index(fields=["created_at", "id"], name="accounts_user_by_age"),
            models.Index(fields=["email"], condition=models.Q(is_active=False), name="accounts_user_inactive"),
        ]

    def __str__(self) -> str:
        return self.email

    def _get_session_auth_hash(self, secret: Any = None) -> str:
        """Return a hash that a session keeps: a new token version ends sessions, as it refuses tokens."""
        return f"{super()._get_session_auth_hash(secret)}{self.token_version}"  # type: ignore[misc]

    def set_password(self, raw_password: str | None) -> None:
        """Set the password and refuse every earlier token, also when Django's own forms save it."""
        super().set_password(raw_password)
        self.token_version += 1

    # Django's admin asks these. Super admins have every permission in it. The roles of ROLE_ADMIN_APPS see the pages of
    # their apps, and others have none.
    @property
    def is_superuser(self) -> bool:
        return self.role == Role.SUPER_ADMIN

    @property
    def is_staff(self) -> bool:
        return self.is_superuser or self.role in settings.ROLE_ADMIN_APPS

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        app_label, _, name = perm.partition(".")
        may_view = name.startswith("view_") and self.has_module_perms(app_label)
        return self.is_active and (self.is_superuser or may_view)

    def has_perms(self, perms: Any, obj: Any = None) -> bool:
        return all(self.has_perm(perm, obj) for perm in perms)

    def has_module_perms(self, app_label: str) -> bool:
        has_app = app_label in settings.ROLE_ADMIN_APPS.get(self.role, ())
        return self.is_active and (self.is_superuser or has_app)


class ApiKey(models.Model):
    """A long-lived credential. Its secret is shown once and stored as a hash."""

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="api_keys")
    name = models.CharField(max_length=100)
    key_id = models.CharField(max_length=16, unique=True, editable=False)
    secret_hash = models.CharField(max_length=64, editable=False)
    permissions = models.JSONField(null=True, blank=True)  # a list; null: all permissions of the role
    created_at = models.DateTimeField(editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, editable=False)
    # At the model server. Empty: its default. A key with any of the first three is counted apart from its user.
    # Tokens a month count for the user as well.
    request_limit = models.PositiveIntegerField("requests a minute", null=True, blank=True)
    token_limit = models.PositiveIntegerField("tokens a minute", null=True, blank=True)
    concurrency_limit = models.PositiveIntegerField("requests at once", null=True, blank=True)
    monthly_token_limit = models.PositiveBigIntegerField("tokens a month", null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["name"], opclasses=["varchar_pattern_ops"], name="accounts_apikey_name")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix})"

    @property
    def prefix(self) -> str:
        """Return the part of the key that may be shown to identify it."""
        return f"stoa_{self.key_id}_"

    @property
    def has_own_limits(self) -> bool:
        return (self.request_limit, self.token_limit, self.concurrency_limit) != (None, None, None)


class SignInQuerySet(models.QuerySet["SignIn"]):
    def active_of(self, user: User, *, now: datetime) -> Self:
        """Return the sign-ins whose tokens the user can still use, the latest first."""
        valid = models.Q(token_version=user.token_version) | models.Q(token_version=None)
        return self.filter(valid, user=user, revoked_at=None, expires_at__gt=now).order_by("-refreshed_at", "-pk")


class SignIn(models.Model):
    """One sign-in with the family of its tokens, which are refreshed and revoked together."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_ins")
    refresh_id = models.UUIDField(default=uuid.uuid4)  # `jti` of the only valid refresh token
    # `jti` of the refresh token before: for some seconds it is answered with the pair that it was exchanged for.
    previous_refresh_id = models.UUIDField(null=True)
    token_version = models.PositiveIntegerField(
        null=True
    )  # of the user; null: not refreshed since an earlier version of Stoa
    created_at = models.DateTimeField()
    refreshed_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    objects = SignInQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.user_id} at {self.created_at:%Y-%m-%d %H:%M}"


class SignInNetwork(models.Model):
    """A network from which a user has signed in, as a keyed hash.

    Wrong passwords from elsewhere do not use up its attempts.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_in_networks")
    network = models.CharField(max_length=64)
    used_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "network"], name="accounts_network_of_user")]

    def __str__(self) -> str:
        return f"{self.user_id} at {self.used_at:%Y-%m-%d %H:%M}"


class SecondFactor(models.Model):
    """A user's one-time passwords by an authenticator app (RFC 6238), with recovery codes for a lost one."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True, related_name="second_factor")
    secret = models.TextField()  # encrypted
    confirmed_at = models.DateTimeField(null=True)  # null: set up, but not yet used
    last_step = models.BigIntegerField(default=0)  # of the last code: each works once
    recovery_codes = models.JSONField(default=list)  # hashes of those that are left

    def __str__(self) -> str:
        return f"{self.user_id} since {self.confirmed_at:%Y-%m-%d}" if self.confirmed_at else f"{self.user_id}, not on"
