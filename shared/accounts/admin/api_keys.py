"""Django admin of API keys, which are revoked and never deleted."""

from typing import Any, cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone

from shared.accounts import services
from shared.accounts.admin.forms import ApiKeyForm, KeyLimitsForm
from shared.accounts.models import ApiKey, User
from shared.api.admin.base import LargeTableAdmin, NoDeleteMixin


@admin.register(ApiKey)
class ApiKeyAdmin(NoDeleteMixin, LargeTableAdmin):
    form = ApiKeyForm
    ordering = ["-id"]
    list_display = ["name", "prefix", "user", "limits", "created_at", "last_used_at", "expires_at", "revoked_at"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter), "user__role"]
    list_select_related = ["user"]
    search_fields = ["name", "key_id", "user__email"]
    search_help_text = "Search by the beginning of a name, a key or the user's e-mail address, or by id"
    autocomplete_fields = ["user"]
    fieldsets = [
        (None, {"fields": ["user", "name", "permissions", "expires_at"]}),
        ("Model server limits", {"fields": KeyLimitsForm.Meta.fields}),
    ]
    add_fieldsets = [(None, {"fields": ["user", "name", "permissions", "expires_at"]})]
    actions = ["revoke"]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return not lookup.startswith("secret_hash") and super().lookup_allowed(lookup, value, request)

    @admin.display(description="Limits")
    def limits(self, key: ApiKey) -> str:
        """Return the limits that differ from the defaults. Requests and tokens are per minute."""
        own = {"requests": key.request_limit, "tokens": key.token_limit, "concurrent": key.concurrency_limit}
        own["tokens a month"] = key.monthly_token_limit
        return ", ".join(f"{limit:,} {unit}" for unit, limit in own.items() if limit is not None)

    def get_fieldsets(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        return self.fieldsets if obj else self.add_fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        """Return all fields of an existing key except its limits, because a key never changes."""
        return ["user", "name", "permissions", "expires_at"] if obj else []

    def get_form(self, request: HttpRequest, obj: ApiKey | None = None, change: bool = False, **kwargs: Any) -> Any:
        return super().get_form(request, obj, change, form=KeyLimitsForm if obj else ApiKeyForm, **kwargs)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: "ModelForm[ApiKey]", change: bool) -> None:
        data = form.cleaned_data
        if change:
            services.set_key_limits(
                api_key=obj,
                requests=data["request_limit"],
                tokens=data["token_limit"],
                concurrency=data["concurrency_limit"],
                monthly_tokens=data["monthly_token_limit"],
            )
            return
        key, raw = services.create_api_key(
            user=data["user"],
            name=data["name"],
            permissions=data["permissions"],
            expires_at=data["expires_at"],
            actor=cast(User, request.user),
            now=timezone.now(),
        )
        obj.pk = key.pk
        obj.refresh_from_db()
        self.message_user(request, f"Copy the key now. It is not shown again: {raw}", messages.WARNING)

    @admin.action(description="Revoke selected API keys")
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        for key in keys:
            services.revoke_api_key(api_key=key, actor=cast(User, request.user), now=timezone.now())
