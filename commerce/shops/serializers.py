"""Serializers of shops, their staff and invitations, and of the signed-in user."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.addresses.models import Address
from commerce.attachments.quota import StorageQuota, shop_storage_quotas, storage_quota
from commerce.attachments.serializers import AttachmentRecordSerializer
from commerce.shops.fields import ImageReferenceField, SmallObjectField
from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.accounts.models import User
from shared.accounts.roles import SHOP_PERMISSIONS, Role
from shared.api.fields import EmailAddressField, IdField, PasswordField, SlugInputField
from shared.api.lists.relations import RelationsSerializer

MAX_ADDRESSES = 100
MAX_SLUG_LENGTH = 200


class ShopSummarySerializer(serializers.ModelSerializer[Shop]):
    """A shop inside another record. Prefetch `shop__logo`."""

    logo = AttachmentRecordSerializer(read_only=True, allow_null=True, help_text="Logo of the shop, or null.")

    class Meta:
        model = Shop
        fields = ["id", "name", "slug", "logo"]
        extra_kwargs = {
            "name": {"help_text": "Name of the shop."},
            "slug": {"help_text": "Name in URLs, unique and never changed."},
        }


class ShopOwnerSerializer(serializers.ModelSerializer[User]):
    """The owner of a shop as everybody sees them."""

    class Meta:
        model = User
        fields = ["id", "name"]
        extra_kwargs = {"name": {"help_text": "Name of the owner."}}


class StaffMemberSerializer(serializers.ModelSerializer[ShopStaff]):
    """A staff member of a shop."""

    id = serializers.IntegerField(source="user_id", help_text="Id of the user.")
    name = serializers.CharField(source="user.name", help_text="Name of the user.")
    email = serializers.EmailField(source="user.email", help_text="E-mail address of the user.")
    is_active = serializers.BooleanField(source="user.is_active", help_text="Whether the account is enabled.")

    class Meta:
        model = ShopStaff
        fields = ["id", "name", "email", "is_active", "shop_id", "created_at"]
        extra_kwargs = {
            "shop_id": {"help_text": "Id of the shop."},
            "created_at": {"help_text": "When the user joined the shop."},
        }


class ShopCategorySerializer(serializers.Serializer[Any]):
    """A category with products of a shop."""

    id = serializers.IntegerField(help_text="Id of the category.")
    name = serializers.CharField(help_text="Name of the category.")
    slug = serializers.CharField(help_text="Name in URLs.")


class ShopSerializer(RelationsSerializer):
    """A shop as everybody sees it."""

    logo = AttachmentRecordSerializer(read_only=True, allow_null=True, help_text="Logo of the shop, or null.")
    cover_image = AttachmentRecordSerializer(
        read_only=True, allow_null=True, help_text="Cover image of the shop, or null."
    )
    address = serializers.DictField(read_only=True, help_text="Address as the owner sent it.")
    settings = serializers.DictField(read_only=True, help_text="Settings of the storefront as the owner sent them.")
    products_count = serializers.IntegerField(read_only=True, min_value=0, help_text="Number of published products.")
    owner = ShopOwnerSerializer(read_only=True, help_text="Owner. Only with `with=owner`.")
    staffs = StaffMemberSerializer(
        many=True,
        read_only=True,
        allow_null=True,
        help_text="Staff; null unless you own the shop or are a super admin. Only with `with=staffs`.",
    )
    categories = ShopCategorySerializer(
        many=True, read_only=True, help_text="Categories of the published products. Only with `with=categories`."
    )

    class Meta:
        model = Shop
        fields = [
            "id", "name", "slug", "description", "is_active", "owner_id", "logo", "cover_image", "address", "settings",
            "orders_count", "products_count", "created_at", "updated_at", "owner", "staffs", "categories",
        ]  # fmt: skip
        relations = ["owner", "staffs", "categories"]
        extra_kwargs = ShopSummarySerializer.Meta.extra_kwargs | {
            "description": {"help_text": "Description of the shop."},
            "is_active": {"help_text": "Whether everybody sees the shop; otherwise only its owner and staff do."},
            "owner_id": {"help_text": "Id of the user who owns the shop."},
            "orders_count": {"help_text": "Number of orders that were placed in the shop."},
        }


class ShopWriteSerializer(serializers.Serializer[Any]):
    """The fields of a shop that its owner may change. `is_active` counts only from a super admin."""

    name = serializers.CharField(max_length=255, help_text="Name of the shop.")
    description = serializers.CharField(
        max_length=20_000, required=False, allow_blank=True, help_text="Description of the shop."
    )
    address = SmallObjectField(required=False, help_text="Public address, any JSON object of up to 16 KiB.")
    settings = SmallObjectField(
        required=False, help_text="Public settings of the storefront, any JSON object of up to 16 KiB."
    )
    logo = ImageReferenceField(
        required=False, allow_null=True, source="logo_id", help_text="Logo: an image that you uploaded, or null."
    )
    cover_image = ImageReferenceField(
        required=False,
        allow_null=True,
        source="cover_image_id",
        help_text="Cover: an image that you uploaded, or null.",
    )
    is_active = serializers.BooleanField(
        required=False, help_text="Whether everybody sees the shop. Ignored unless a super admin sends it."
    )


class ShopChangesSerializer(ShopWriteSerializer):
    address = SmallObjectField(
        required=False,
        help_text="Public address, any JSON object of up to 16 KiB. An empty object changes nothing.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in attrs.items() if name != "address" or value}


class NewShopSerializer(ShopWriteSerializer):
    slug = SlugInputField(
        max_length=MAX_SLUG_LENGTH,
        help_text="Name in URLs. Made from `name` if missing; gets a suffix if another shop has it.",
    )


class InviteStaffSerializer(serializers.Serializer[Any]):
    email = EmailAddressField(max_length=254, help_text="E-mail address that the invitation is sent to.")


class InviteStaffToShopSerializer(InviteStaffSerializer):
    shop_id = IdField(help_text="Id of a shop of yours.")


class ShopReferenceSerializer(serializers.Serializer[Any]):
    id = IdField(help_text="Id of the shop.")


class StaffInvitationSerializer(serializers.ModelSerializer[StaffInvitation]):
    """An invitation to the staff of a shop."""

    class Meta:
        model = StaffInvitation
        fields = ["id", "shop_id", "email", "created_at", "expires_at"]
        extra_kwargs = {
            "shop_id": {"help_text": "Id of the shop."},
            "email": {"help_text": "E-mail address that the invitation was sent to."},
            "expires_at": {"help_text": "When the link stops working."},
        }


class AcceptInvitationSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(max_length=1024, help_text="Token of the link in the e-mail.")
    name = serializers.CharField(max_length=150, help_text="Your name. Ignored if you have an account already.")
    password = PasswordField(help_text="Your password from now on, of at least 8 characters.")


class OwnAddressSerializer(serializers.ModelSerializer[Address]):
    """An address of the signed-in user."""

    address = serializers.DictField(read_only=True, help_text="Address as it was sent.")

    class Meta:
        model = Address
        fields = ["id", "title", "type", "default", "address", "customer_id", "created_at", "updated_at"]
        extra_kwargs = {
            "title": {"help_text": "Label of the address."},
            "type": {"help_text": "Purpose of the address."},
            "default": {"help_text": "Whether this is the default address of its type."},
            "customer_id": {"help_text": "Id of the user whose address it is."},
        }


class PermissionNameSerializer(serializers.Serializer[Any]):
    """A permission of a user."""

    name = serializers.CharField(help_text="Name of a role, in lower case.")


class UserSerializer(serializers.ModelSerializer[User]):
    """A user in a list of super admins."""

    permissions = serializers.SerializerMethodField(help_text="Roles that the user acts with.")

    class Meta:
        model = User
        fields = ["id", "name", "email", "is_active", "email_verified_at", "role", "permissions", "created_at"]
        extra_kwargs = {
            "name": {"help_text": "Name of the user."},
            "email": {"help_text": "E-mail address that the user signs in with."},
            "is_active": {"help_text": "Whether the account is enabled."},
            "email_verified_at": {"help_text": "When the e-mail address was confirmed, or null."},
            "role": {"help_text": "Role of the user."},
            "created_at": {"help_text": "When the user joined."},
        }

    @extend_schema_field(PermissionNameSerializer(many=True))
    def get_permissions(self, user: User) -> Any:
        return [{"name": name} for name in SHOP_PERMISSIONS[Role(user.role)]]


class ProfileSerializer(serializers.Serializer[Any]):
    """The profile of the signed-in user."""

    customer_id = serializers.IntegerField(help_text="Id of the user.")
    contact = serializers.CharField(allow_null=True, help_text="Contact of the user's last order with one, or null.")


class StorageQuotaSerializer(serializers.Serializer[StorageQuota]):
    """Bytes and files that the user may store; null where there is no limit."""

    max_bytes = serializers.IntegerField(allow_null=True, help_text="Size of all attachments together, or null.")
    max_files = serializers.IntegerField(allow_null=True, help_text="Number of attachments, or null.")
    remaining_bytes = serializers.IntegerField(allow_null=True, help_text="Bytes that can still be stored, or null.")
    remaining_files = serializers.IntegerField(allow_null=True, help_text="Files that can still be stored, or null.")


class ShopStorageQuotaSerializer(serializers.Serializer[StorageQuota]):
    """Bytes and files that a shop's staff may store together."""

    shop_id = serializers.IntegerField(source="shop.pk", help_text="Id of the shop.")
    shop_name = serializers.CharField(source="shop.name", help_text="Name of the shop.")
    max_bytes = serializers.IntegerField(help_text="Size of all attachments of its staff together.")
    max_files = serializers.IntegerField(help_text="Number of attachments of its staff.")
    remaining_bytes = serializers.IntegerField(help_text="Bytes that can still be stored.")
    remaining_files = serializers.IntegerField(help_text="Files that can still be stored.")


class CurrentStorageSerializer(StorageQuotaSerializer):
    """Bytes and files that the user may store; null where there is no limit.

    An upload by a staff member must fit the quota of their shop too.
    """

    shops = ShopStorageQuotaSerializer(many=True, help_text="Quota of each shop that the user owns or works in.")


class CurrentUserSerializer(serializers.ModelSerializer[User]):
    """The signed-in user."""

    shop_id = serializers.SerializerMethodField(help_text="Id of the shop that a staff member works for, else null.")
    permissions = serializers.SerializerMethodField(help_text="Role names in lower case that the user acts with.")
    address = serializers.SerializerMethodField(help_text="Addresses of the user, at most 100.")
    shops = serializers.SerializerMethodField(help_text="Shops that the user owns or works in.")
    managed_shop = serializers.SerializerMethodField(help_text="Shop that a staff member works for, else null.")
    profile = serializers.SerializerMethodField(help_text="What a checkout form is filled in with.")
    storage = serializers.SerializerMethodField(help_text="Quota of attachments, and what is left of it.")

    class Meta:
        model = User
        fields = [
            "id", "name", "email", "is_active", "email_verified_at", "shop_id", "permissions", "role", "address",
            "shops", "managed_shop", "profile", "storage",
        ]  # fmt: skip
        extra_kwargs = {
            "name": {"help_text": "Name of the user."},
            "email": {"help_text": "E-mail address that the user signs in with."},
            "is_active": {"help_text": "Whether the account is enabled."},
            "email_verified_at": {"help_text": "When the e-mail address was confirmed, or null."},
            "role": {"help_text": "Role of the user."},
        }

    def get_shop_id(self, user: User) -> int | None:
        if user.role != Role.STAFF:
            return None
        return Shop.objects.for_user(user).values_list("pk", flat=True).first()

    def get_permissions(self, user: User) -> list[str]:
        return list(SHOP_PERMISSIONS[Role(user.role)])

    @extend_schema_field(OwnAddressSerializer(many=True))
    def get_address(self, user: User) -> Any:
        addresses = Address.objects.filter(customer=user).order_by("id")[:MAX_ADDRESSES]
        return OwnAddressSerializer(addresses, many=True).data

    @extend_schema_field(ShopSerializer(many=True))
    def get_shops(self, user: User) -> Any:
        return ShopSerializer(Shop.objects.for_user(user).for_response(), many=True, context=self.context).data

    @extend_schema_field(ShopSerializer(allow_null=True))
    def get_managed_shop(self, user: User) -> Any:
        shop = Shop.objects.for_user(user).for_response().first() if user.role == Role.STAFF else None
        return None if shop is None else ShopSerializer(shop, context=self.context).data

    @extend_schema_field(ProfileSerializer)
    def get_profile(self, user: User) -> Any:
        order_model: Any = Shop.orders.rel.related_model  # orders imports shops, not the other way round
        orders = order_model._default_manager.of_customer(user).exclude(customer_contact="")
        contact = orders.order_by("-created_at", "-id").values_list("customer_contact", flat=True).first()
        return ProfileSerializer({"customer_id": user.pk, "contact": contact}).data

    @extend_schema_field(CurrentStorageSerializer)
    def get_storage(self, user: User) -> Any:
        shops = [ShopStorageQuotaSerializer(quota).data for quota in shop_storage_quotas(user)]
        return {**StorageQuotaSerializer(storage_quota(user)).data, "shops": shops}
