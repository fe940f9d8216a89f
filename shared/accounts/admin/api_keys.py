"""Django admin pages of API keys, which are revoked and never deleted."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone

from shared.accounts import services
from shared.accounts.admin.forms import ApiKeyForm, KeyLimitsForm
from shared.accounts.models import ApiKey
from shared.api.admin_base import LargeTableAdmin, NoDeleteMixin


@admin.register(ApiKey)
class ApiKeyAdmin(NoDeleteMixin, LargeTableAdmin):
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
                monthly_tokens=given["monthly_token_limit"],
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
