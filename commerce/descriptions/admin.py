"""Drafts, to be read: what a model wrote is not rewritten here."""

from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from commerce.descriptions.models import DescriptionDraft


@admin.register(DescriptionDraft)
class DescriptionDraftAdmin(ModelAdmin):
    list_display = ["id", "product", "author", "model", "created_at"]
    list_select_related = ["product", "author"]
    list_filter = ["model", "created_at"]
    search_fields = ["product__name"]
    readonly_fields = ["product", "author", "text", "model", "created_at"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False
