"""What a signed-in user is told about themself."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.roles import SHOP_PERMISSIONS, Role


class ShopSerializer(serializers.ModelSerializer[Shop]):
    class Meta:
        model = Shop
        fields = ["id", "name", "slug", "description", "is_active", "owner_id", "created_at", "updated_at"]


class MeSerializer(serializers.ModelSerializer[User]):
    """`shops` are those that the user owns or works in; `shop_id` is the one a staff member works for."""

    shop_id = serializers.SerializerMethodField()
    permissions = serializers.SerializerMethodField()
    address = serializers.SerializerMethodField()
    shops = serializers.SerializerMethodField()

    class Meta:
        model = User
        fields = [
            "id",
            "name",
            "email",
            "is_active",
            "email_verified_at",
            "shop_id",
            "permissions",
            "role",
            "address",
            "shops",
        ]

    def get_shop_id(self, user: User) -> int | None:
        return ShopStaff.objects.filter(user=user).values_list("shop_id", flat=True).first()

    def get_permissions(self, user: User) -> list[str]:
        return list(SHOP_PERMISSIONS[Role(user.role)])

    def get_address(self, user: User) -> list[dict[str, Any]]:
        return []

    @extend_schema_field(ShopSerializer(many=True))
    def get_shops(self, user: User) -> Any:
        return ShopSerializer(Shop.objects.for_user(user), many=True).data
