"""The wire shapes of shops, and of what a signed-in user is told about themself."""

import json
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.addresses.models import Address
from commerce.attachments.records import AttachmentRecordSerializer
from commerce.shops.images import ImageReferenceField
from commerce.shops.models import Shop
from commerce.shops.records import for_record
from shared.accounts.models import User
from shared.accounts.roles import SHOP_PERMISSIONS, Role

LARGEST_OBJECT_BYTES = 16 * 1024
MOST_ADDRESSES = 100


class ShopSerializer(serializers.ModelSerializer[Shop]):
    """A shop as everybody sees it."""

    logo = AttachmentRecordSerializer(read_only=True, allow_null=True)
    cover_image = AttachmentRecordSerializer(read_only=True, allow_null=True)
    address = serializers.DictField(read_only=True)
    settings = serializers.DictField(read_only=True)
    products_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = Shop
        fields = [
            "id",
            "name",
            "slug",
            "description",
            "is_active",
            "owner_id",
            "logo",
            "cover_image",
            "address",
            "settings",
            "orders_count",
            "products_count",
            "created_at",
            "updated_at",
        ]


class SmallObjectField(serializers.DictField):
    """A free-form JSON object of bounded size."""

    default_error_messages = {"too_large": "This may have at most {largest} bytes."}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        value: dict[str, Any] = super().to_internal_value(data)
        if len(json.dumps(value)) > LARGEST_OBJECT_BYTES:
            self.fail("too_large", largest=LARGEST_OBJECT_BYTES)
        return value


class ShopWriteSerializer(serializers.Serializer[Any]):
    """A shop as its owner sends it. `is_active` is a super admin's to change, and of others not looked at; `settings`
    and `address` are seen by everybody."""

    name = serializers.CharField(max_length=255)
    description = serializers.CharField(max_length=20_000, required=False, allow_blank=True)
    address = SmallObjectField(required=False)
    settings = SmallObjectField(required=False)
    logo = ImageReferenceField(required=False, allow_null=True, source="logo_id")
    cover_image = ImageReferenceField(required=False, allow_null=True, source="cover_image_id")
    is_active = serializers.BooleanField(required=False)


class NewShopSerializer(ShopWriteSerializer):
    slug = serializers.SlugField(max_length=200, required=False)


class OwnAddressSerializer(serializers.ModelSerializer[Address]):
    address = serializers.DictField(read_only=True)

    class Meta:
        model = Address
        fields = ["id", "title", "type", "default", "address", "customer_id", "created_at", "updated_at"]


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
        works = user.role == Role.STAFF
        return Shop.objects.for_user(user).values_list("pk", flat=True).first() if works else None

    def get_permissions(self, user: User) -> list[str]:
        return list(SHOP_PERMISSIONS[Role(user.role)])

    @extend_schema_field(OwnAddressSerializer(many=True))
    def get_address(self, user: User) -> Any:
        own = Address.objects.filter(customer=user).order_by("id")[:MOST_ADDRESSES]
        return OwnAddressSerializer(own, many=True).data

    @extend_schema_field(ShopSerializer(many=True))
    def get_shops(self, user: User) -> Any:
        return ShopSerializer(for_record(Shop.objects.for_user(user)), many=True, context=self.context).data
