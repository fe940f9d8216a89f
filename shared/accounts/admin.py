"""People and keys in the admin. Nobody is deleted: users are deactivated, keys revoked."""

from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.core.handlers.asgi import ASGIRequest
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html

from shared.accounts import services
from shared.accounts.erasure import aexport_person, erase_person, export_person
from shared.accounts.forms import ApiKeyForm, KeyLimitsForm, NewUserForm, PasswordForm, UserForm
from shared.accounts.models import ApiKey, User
from shared.api.errors import ApiError, ValidationFailed
from shared.api.fast_admin import FastAdmin

admin.site.unregister(Group)  # roles take the place of Django's groups


class KeptForever:
    """No delete button, for nobody."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(User)
class UserAdmin(KeptForever, DjangoUserAdmin, FastAdmin):  # type: ignore[misc, type-arg]
    form = UserForm
    add_form = NewUserForm
    change_password_form = PasswordForm
    add_form_template = None
    list_display = ["email", "name", "role", "is_active", "created_at", "last_login"]
    list_filter = ["role", "is_active"]
    search_fields = ["email", "name"]
    search_help_text = "The beginning of an e-mail or of a name, or an id"  # type: ignore[misc]
    ordering = ["email"]
    sortable_by = ["email", "created_at", "last_login"]
    filter_horizontal = []
    readonly_fields = ["password_link", "email_verified_at", "created_at", "last_login"]
    fieldsets = [
        (None, {"fields": ["email", "name", "role", "is_active", "password_link"]}),
        ("Limits of the model server", {"fields": ["monthly_token_limit"]}),
        ("Dates", {"fields": ["created_at", "email_verified_at", "last_login"]}),
    ]
    add_fieldsets = [(None, {"fields": ["email", "name", "role", "password1", "password2"]})]
    actions = ["deactivate", "export", "erase"]

    @admin.display(description="Password")
    def password_link(self, user: User) -> str:
        return format_html('<a href="../password/">{}</a>', "Set a new one: every token is refused from then on")

    def save_model(self, request: HttpRequest, obj: User, form: "ModelForm[User]", change: bool) -> None:
        given = form.cleaned_data
        if change:
            services.change_user(
                user=obj, name=given["name"], email=given["email"], role=given["role"], is_active=given["is_active"]
            )
            services.set_monthly_limit(user=obj, tokens=given["monthly_token_limit"])
            return
        user = services.create_user(
            email=given["email"],
            name=given["name"],
            password=given["password1"],
            role=given["role"],
            now=timezone.now(),
        )
        obj.pk = user.pk
        obj.refresh_from_db()

    @admin.action(description="Deactivate: refuse their tokens and keys at once")
    def deactivate(self, request: HttpRequest, users: QuerySet[User]) -> None:
        for user in users:
            try:
                services.deactivate_user(user=user)
            except ValidationFailed as error:
                self.message_user(request, f"{user}: {error}", messages.ERROR)

    @admin.action(description="Export what is kept about one of them here, as JSON")
    def export(self, request: HttpRequest, users: QuerySet[User]) -> HttpResponseBase | None:
        user = users.first()
        if user is None or users.count() != 1:
            self.message_user(request, "Choose one person: each gets a file of their own.", messages.ERROR)
            return None
        pieces: Any = aexport_person(user=user) if isinstance(request, ASGIRequest) else export_person(user=user)
        headers = {"Content-Disposition": f'attachment; filename="person-{user.pk}.json"'}
        return StreamingHttpResponse(pieces, content_type="application/json", headers=headers)

    @admin.action(description="Erase here: everything personal goes, for good")
    def erase(self, request: HttpRequest, users: QuerySet[User]) -> HttpResponseBase | None:
        if "confirmed" not in request.POST:
            context = self.admin_site.each_context(request) | {"users": users, "title": "Erase people"}
            return TemplateResponse(request, "accounts/erase.html", context)
        for user in users:
            try:
                erase_person(user=user, actor=cast(User, request.user), now=timezone.now())
            except ApiError as error:
                self.message_user(request, f"{user}: {error}", messages.ERROR)
            else:
                self.message_user(request, f"User {user.pk} is erased here. The other project has its own part.")
        return None


@admin.register(ApiKey)
class ApiKeyAdmin(KeptForever, FastAdmin):
    form = ApiKeyForm
    ordering = ["-id"]
    list_display = ["name", "prefix", "user", "limits", "created_at", "last_used_at", "expires_at", "revoked_at"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter), "user__role"]
    list_select_related = ["user"]
    search_fields = ["name", "key_id", "user__email"]
    search_help_text = "The beginning of a name, of a key or of its user's e-mail, or an id"
    autocomplete_fields = ["user"]
    fieldsets = [
        (None, {"fields": ["user", "name", "permissions", "expires_at"]}),
        ("Limits of the model server", {"fields": KeyLimitsForm.Meta.fields}),
    ]
    add_fieldsets = [(None, {"fields": ["user", "name", "permissions", "expires_at"]})]
    actions = ["revoke"]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return not lookup.startswith("secret_hash") and super().lookup_allowed(lookup, value, request)

    @admin.display(description="Limits")
    def limits(self, key: ApiKey) -> str:
        """Those that are not the defaults: requests and tokens are of a minute."""
        own = {"requests": key.request_limit, "tokens": key.token_limit, "at once": key.concurrency_limit}
        own["tokens a month"] = key.monthly_token_limit
        return ", ".join(f"{limit:,} {what}" for what, limit in own.items() if limit is not None)

    def get_fieldsets(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        return self.fieldsets if obj else self.add_fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        """A key never changes once it is made, but for its limits."""
        return ["user", "name", "permissions", "expires_at"] if obj else []

    def get_form(self, request: HttpRequest, obj: ApiKey | None = None, change: bool = False, **kwargs: Any) -> Any:
        return super().get_form(request, obj, change, form=KeyLimitsForm if obj else ApiKeyForm, **kwargs)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: "ModelForm[ApiKey]", change: bool) -> None:
        given = form.cleaned_data
        if change:
            services.set_key_limits(
                api_key=obj,
                requests=given["request_limit"],
                tokens=given["token_limit"],
                concurrency=given["concurrency_limit"],
                tokens_a_month=given["monthly_token_limit"],
            )
            return
        key, raw = services.create_api_key(
            user=given["user"],
            name=given["name"],
            permissions=given["permissions"],
            expires_at=given["expires_at"],
            now=timezone.now(),
        )
        obj.pk = key.pk
        obj.refresh_from_db()
        self.message_user(request, f"Copy the key now, it is never shown again: {raw}", messages.WARNING)

    @admin.action(description="Revoke: refuse these keys at once")
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        for key in keys:
            services.revoke_api_key(api_key=key, now=timezone.now())
