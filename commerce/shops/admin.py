"""Shops and their staff, for the people who run the platform."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import TabularInline

from commerce.config.fast_admin import FastAdmin
from commerce.shops import services
from commerce.shops.models import Shop, ShopStaff


class ShopStaffInline(TabularInline):
    model = ShopStaff
    autocomplete_fields = ["user"]
    extra = 0


@admin.register(Shop)
class ShopAdmin(FastAdmin):
    list_display = ["name", "owner", "is_active", "orders_count", "created_at"]
    list_select_related = ["owner"]
    list_filter = ["is_active"]
    search_fields = ["slug", "name", "owner__email"]
    autocomplete_fields = ["owner", "logo", "cover_image"]
    prepopulated_fields = {"slug": ["name"]}
    readonly_fields = ["orders_count", "created_at", "updated_at"]
    inlines = [ShopStaffInline]
    actions = ["activate", "deactivate"]
    search_help_text = "The beginning of a shop's name or of its owner's e-mail, or a shop's id"

    @admin.action(description="Activate: everybody sees the shop and its products")
    def activate(self, request: HttpRequest, shops: "QuerySet[Shop]") -> None:
        self._set_active(request, shops, True)

    @admin.action(description="Deactivate: only its own people see it")
    def deactivate(self, request: HttpRequest, shops: "QuerySet[Shop]") -> None:
        self._set_active(request, shops, False)

    def _set_active(self, request: HttpRequest, shops: "QuerySet[Shop]", is_active: bool) -> None:
        for shop in shops:
            services.change_shop(
                actor=request.user,  # type: ignore[arg-type]
                shop_id=shop.pk,
                values={"is_active": is_active},
            )
