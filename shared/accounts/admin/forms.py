"""Forms of the admin. They validate, and the services save."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.forms import AdminOwnPasswordChangeForm, AdminPasswordChangeForm, AuthenticationForm, UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminTextInputWidget

from shared.accounts import services
from shared.accounts.models import ApiKey, User
from shared.accounts.roles import ROLE_PERMISSIONS, Permission, Role
from shared.accounts.sign_ins.second_factor import SecondFactorRequired

MISSING_CODE = _("This account has a second factor: enter the code of your authenticator app.")
WRONG_CODE = _(
    "The code is wrong, expired or used. Enter the current one of your authenticator app, or a recovery code."
)


class OneTimeCodeField(forms.CharField):
    """A code of the second factor."""

    widget = UnfoldAdminTextInputWidget(attrs={"autocomplete": "one-time-code", "autocapitalize": "none"})

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=64, label=_("Code"), **options)


class CodeForm(forms.Form):
    otp = OneTimeCodeField(help_text=_("Of your authenticator app, or a recovery code."))


class AdminSignInForm(AuthenticationForm):
    """The sign-in form of the admin, with the code of those who use a second factor.

    `audience` says above it who may sign in, and customers see the same error as for a wrong password.
    """

    audience = _("For super admins.")
    error_messages = AuthenticationForm.error_messages | {
        "invalid_login": _("Please enter the e-mail and the password of a super admin.")
    }
    otp = OneTimeCodeField(required=False, help_text=_("Only if you use an authenticator app."))

    def clean(self) -> dict[str, Any]:
        try:
            cleaned: dict[str, Any] = super().clean()
        except SecondFactorRequired:
            raise forms.ValidationError({"otp": WRONG_CODE if self.cleaned_data.get("otp") else MISSING_CODE}) from None
        return cleaned


class NewUserForm(UserCreationForm):
    usable_password = None

    class Meta:
        model = User
        fields = ["email", "name", "role"]

    def clean_email(self) -> str:
        return User.objects.normalize_email(self.cleaned_data["email"])


class UserForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = User
        fields = [
            "email", "name", "role", "is_active", "may_run_inference", "monthly_token_limit", "attachment_byte_limit",
            "attachment_count_limit",
        ]  # fmt: skip
        help_texts = {
            "may_run_inference": "Off for those who registered themselves, unless the settings allow it.",
            "monthly_token_limit": "At the model server, with all API keys of the user. Empty: the default.",
            "attachment_byte_limit": "Size of all files together. Empty: the quota of the settings.",
            "attachment_count_limit": "Empty: the quota of the settings.",
        }

    def clean_email(self) -> str:
        return User.objects.normalize_email(self.cleaned_data["email"])

    def clean_role(self) -> Role:
        return Role(self.cleaned_data["role"])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        role, is_active = data.get("role"), data.get("is_active", False)
        if role and services.would_leave_no_admin(user=self.instance, role=role, is_active=is_active):
            self.add_error("role", services.LAST_ADMIN_ERROR)
        return data


class PasswordForm(AdminPasswordChangeForm):
    """A new password of a user, set by `actor`."""

    usable_password = None

    def __init__(self, *args: Any, actor: User, **options: Any) -> None:
        super().__init__(*args, **options)
        self.actor = actor

    def save(self, commit: bool = True) -> User:
        services.set_password(user=self.user, password=self.cleaned_data["password1"], actor=self.actor)
        user: User = self.user
        return user


class OwnPasswordForm(AdminOwnPasswordChangeForm):
    """A new password of the user who is signed in."""

    def save(self, commit: bool = True) -> User:
        services.set_password(user=self.user, password=self.cleaned_data["new_password1"], actor=self.user)
        user: User = self.user
        return user


class ApiKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    permissions = forms.MultipleChoiceField(
        choices=[(permission.value, permission.value) for permission in Permission],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        required=False,
        help_text="Leave empty for all permissions of the user's role, now and later.",
    )

    class Meta:
        model = ApiKey
        fields = ["user", "name", "permissions", "expires_at"]

    def clean_permissions(self) -> list[str] | None:
        return self.cleaned_data["permissions"] or None

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        user: User | None = data.get("user")
        if user and not user.is_active:
            self.add_error("user", "This user is deactivated.")
        if user and set(data.get("permissions") or ()) - ROLE_PERMISSIONS[Role(user.role)]:
            self.add_error("permissions", "The role of this user does not have all of these.")
        return data


class KeyLimitsForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = ApiKey
        fields = ["request_limit", "token_limit", "concurrency_limit", "monthly_token_limit"]
        help_texts = {
            "request_limit": "Empty: the model server's default. A key with limits is counted apart from its user.",
            "token_limit": "Prompt and output tokens together.",
            "monthly_token_limit": "Applies in addition to the limit of the user.",
        }
