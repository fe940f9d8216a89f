"""Admin pages of attributes."""

from typing import Any

from django.contrib import admin
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import TabularInline

from commerce.attributes import services
from commerce.attributes.models import Attribute, AttributeValue
from shared.accounts.permissions import signed_in_user
from shared.api.admin.base import LanguageListFilter, LargeTableAdmin
from shared.api.slugs import make_slug


class AttributeValueInline(TabularInline):
    model = AttributeValue
    fields = ["value", "meta"]
    extra = 0
    per_page = 50


@admin.register(Attribute)
class AttributeAdmin(LargeTableAdmin):
    list_display = ["name", "slug", "language", "shop", "updated_at"]
    list_select_related = ["shop"]
    sortable_by = ["name", "slug"]
    list_filter = [LanguageListFilter]
    search_fields = ["name", "slug", "shop__name"]
    autocomplete_fields = ["shop"]
    inlines = [AttributeValueInline]

    def get_readonly_fields(self, request: HttpRequest, obj: Attribute | None = None) -> list[str]:
        return ["language", "slug"] if obj else []

    def get_fields(self, request: HttpRequest, obj: Attribute | None = None) -> list[str]:
        return ["shop", "name", "language", "slug"] if obj else ["shop", "name", "language"]

    def save_model(self, request: HttpRequest, obj: Attribute, form: "ModelForm[Attribute]", change: bool) -> None:
        now = timezone.now()
        if change:
            changes = {"name": obj.name, "shop_id": obj.shop_id}
            row = services.update_attribute(
                actor=signed_in_user(request), attribute_id=obj.pk, changes=changes, now=now
            )
        else:
            row = services.create_attribute(
                actor=signed_in_user(request), shop_id=obj.shop_id, name=obj.name, language=obj.language, now=now
            )
        obj.pk = row.pk
        obj.refresh_from_db()

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        for value in formset.save(commit=False):
            value.slug = make_slug(value.value)[:255]
            value.save()
        for value in formset.deleted_objects:
            value.delete()
