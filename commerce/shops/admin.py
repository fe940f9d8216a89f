"""Shops and their staff, for the people who run the platform."""

from django.contrib import admin
from unfold.admin import ModelAdmin, TabularInline

from commerce.shops.models import Shop, ShopStaff


class ShopStaffInline(TabularInline):
    model = ShopStaff
    autocomplete_fields = ["user"]
    extra = 0


@admin.register(Shop)
class ShopAdmin(ModelAdmin):
    list_display = ["name", "owner", "is_active", "created_at"]
    list_select_related = ["owner"]
    list_filter = ["is_active"]
    search_fields = ["name", "slug", "owner__email"]
    autocomplete_fields = ["owner"]
    prepopulated_fields = {"slug": ["name"]}
    inlines = [ShopStaffInline]
