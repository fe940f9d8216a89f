"""Customers' addresses, for the people who run the platform. Writes go the way that the API's go."""

from typing import Any, cast

from django.contrib import admin
from django.forms import JSONField, ModelForm
from django.forms.fields import InvalidJSONInput
from django.http import HttpRequest
from django.utils import timezone

from commerce.addresses import services
from commerce.addresses.models import Address
from shared.accounts.models import User
from shared.api.fast_admin import FastAdmin


class TypedJSONField(JSONField):
    """Shows again what was typed, letter for letter: Django's own would write escapes out, and trip over half a
    surrogate pair."""

    def bound_data(self, data: Any, initial: Any) -> Any:
        return InvalidJSONInput(data)


class AddressForm(ModelForm):  # type: ignore[type-arg]
    def _get_validation_exclusions(self) -> set[str]:
        """The service takes the former default away, which the form would still trip over."""
        return {*super()._get_validation_exclusions(), "default"}  # type: ignore[misc]

    class Meta:
        field_classes = {"address": TypedJSONField}


@admin.register(Address)
class AddressAdmin(FastAdmin):
    form = AddressForm
    list_display = ["customer", "title", "type", "default", "updated_at"]
    list_select_related = ["customer"]
    list_filter = ["type", "default"]
    search_fields = ["customer__email"]
    autocomplete_fields = ["customer"]
    fields = ["customer", "title", "type", "default", "address"]

    def get_readonly_fields(self, request: HttpRequest, obj: Address | None = None) -> list[str]:
        """Whose it is never changes."""
        return ["customer"] if obj else []

    def save_model(self, request: HttpRequest, obj: Address, form: "ModelForm[Address]", change: bool) -> None:
        given = {name: form.cleaned_data[name] for name in ("title", "type", "default", "address")}
        if change:
            row = services.update_address(customer=obj.customer, address_id=obj.pk, changes=given, now=timezone.now())
        else:
            row = services.create_address(
                actor=_admin(request), customer_id=obj.customer_id, **given, now=timezone.now()
            )
        obj.pk = row.pk
        obj.refresh_from_db()


def _admin(request: HttpRequest) -> User:
    """Who may be here at all."""
    return cast(User, request.user)
