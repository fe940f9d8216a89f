"""Admin pages of shops, their staff and staff invitations."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import TabularInline
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from commerce.shops import invitations, services
from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.api.admin.base import LargeTableAdmin
from shared.api.errors import ApiError


class ShopStaffInline(TabularInline):
    model = ShopStaff
    autocomplete_fields = ["user"]
    extra = 0


@admin.register(Shop)
class ShopAdmin(LargeTableAdmin):
    list_display = ["name", "owner", "is_active", "orders_count", "created_at"]
    list_select_related = ["owner"]
    sortable_by = ["name"]
    list_filter = ["is_active"]
    search_fields = ["slug", "name", "owner__email"]
    autocomplete_fields = ["owner", "logo", "cover_image"]
    prepopulated_fields = {"slug": ["name"]}
    readonly_fields = ["orders_count", "created_at", "updated_at"]
    inlines = [ShopStaffInline]
    actions = ["activate", "deactivate"]
    search_help_text = "Start of a shop's name or of its owner's e-mail address, or a shop's id"

    @admin.action(description="Activate: show the shop and its products to everybody")
    def activate(self, request: HttpRequest, shops: "QuerySet[Shop]") -> None:
        self._set_active(request, shops, True)

    @admin.action(description="Deactivate: show the shop only to its owner and staff")
    def deactivate(self, request: HttpRequest, shops: "QuerySet[Shop]") -> None:
        self._set_active(request, shops, False)

    def _set_active(self, request: HttpRequest, shops: "QuerySet[Shop]", is_active: bool) -> None:
        for shop in shops:
            services.change_shop(
                actor=request.user,  # type: ignore[arg-type]
                shop_id=shop.pk,
                values={"is_active": is_active},
            )


@admin.register(StaffInvitation)
class StaffInvitationAdmin(LargeTableAdmin):
    """Invitations, which can be viewed and withdrawn here. Owners create them by the API; links are never shown."""

    list_display = ["email", "shop", "invited_by", "created_at", "expires_at", "accepted_at"]
    list_select_related = ["shop", "invited_by"]
    list_filter = [
        ("accepted_at", admin.EmptyFieldListFilter),
        ["shop", AutocompleteSelectFilter],
    ]
    search_fields = ["email", "shop__slug"]
    search_help_text = "Start of an e-mail address or of a shop's name, or an id"
    actions = ["withdraw"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: the `withdraw` action deletes open invitations only."""
        return False

    @admin.action(description="Withdraw: their links stop working")
    def withdraw(self, request: HttpRequest, selected: "QuerySet[StaffInvitation]") -> None:
        for invitation in selected:
            try:
                invitations.withdraw_invitation(
                    actor=request.user,  # type: ignore[arg-type]
                    shop_id=invitation.shop_id,
                    invitation_id=invitation.pk,
                    now=timezone.now(),
                )
            except ApiError:
                message = f"{invitation}: this invitation was accepted or has expired."
                self.message_user(request, message, messages.ERROR)
