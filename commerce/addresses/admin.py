"""Admin pages of customers' addresses. They write through the services, as the API does."""

from typing import Any

from django.contrib import admin
from django.forms import JSONField, ModelForm
from django.forms.fields import InvalidJSONInput
from django.http import HttpRequest
from django.utils import timezone

from commerce.addresses import services
from commerce.addresses.models import Address
from shared.accounts.permissions import signed_in_user
from shared.api.admin.base import LargeTableAdmin


class VerbatimJSONField(JSONField):
    """A JSON field that shows invalid input as it was typed.

    Django's own field writes escapes out, and fails for half a surrogate pair.
    """

    def bound_data(self, data: Any, initial: Any) -> Any:
        return InvalidJSONInput(data)


class AddressForm(ModelForm):  # type: ignore[type-arg]
    def _get_validation_exclusions(self) -> set[str]:
        """Exclude `default`: the service replaces the previous default, which the form's check would report."""
        return {*super()._get_validation_exclusions(), "default"}  # type: ignore[misc]

    class Meta:
        field_classes = {"address": VerbatimJSONField}


@admin.register(Address)
class AddressAdmin(LargeTableAdmin):
    form = AddressForm
    list_display = ["customer", "title", "type", "default", "updated_at"]
    list_select_related = ["customer"]
    list_filter = ["type", "default"]
    search_fields = ["customer__email"]
    autocomplete_fields = ["customer"]
    fields = ["customer", "title", "type", "default", "address"]

    def get_readonly_fields(self, request: HttpRequest, obj: Address | None = None) -> list[str]:
        """Make the customer read-only after creation."""
        return ["customer"] if obj else []

    def save_model(self, request: HttpRequest, obj: Address, form: "ModelForm[Address]", change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in ("title", "type", "default", "address")}
        if change:
            row = services.update_address(customer=obj.customer, address_id=obj.pk, changes=values, now=timezone.now())
        else:
            row = services.create_address(
                actor=signed_in_user(request), customer_id=obj.customer_id, **values, now=timezone.now()
            )
        obj.pk = row.pk
        obj.refresh_from_db()
