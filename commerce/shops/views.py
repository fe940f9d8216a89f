"""Views of shops, their staff and invitations, and of the signed-in user."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.shops import invitations, schema, services
from commerce.shops.filters import (
    NewShopFilters,
    ShopFilters,
    StaffFilters,
    StaffInvitationFilters,
    StaffOfShopsFilters,
    UserFilters,
)
from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from commerce.shops.serializers import (
    AcceptInvitationSerializer,
    CurrentUserSerializer,
    InviteStaffSerializer,
    InviteStaffToShopSerializer,
    NewShopSerializer,
    ShopChangesSerializer,
    ShopReferenceSerializer,
    ShopSerializer,
    StaffInvitationSerializer,
    StaffMemberSerializer,
    UserSerializer,
)
from shared.accounts.models import User
from shared.accounts.permissions import HasRole, ReadOnly, current_user
from shared.accounts.roles import Role
from shared.api.limits.rate_limits import rate_limit_headers
from shared.api.limits.throttling import RateLimitThrottle
from shared.api.lists.pagination import ArrayPagination, PagePagination
from shared.api.reads.conditional import public_read
from shared.api.viewsets import ApiViewSet, CreateMixin, DestroyMixin, PublicView, SlugOrIdLookupMixin, UpdateMixin

# The services check which shops a user with one of these roles owns or works in.
IsShopStaff = HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")


@schema.describe_current_user
class CurrentUserView(APIView):
    """The signed-in user."""

    def get(self, request: Request) -> Response:
        return Response(CurrentUserSerializer(request.auth.user, context={"request": request}).data)


@schema.describe_shops
@public_read
class ShopViewSet(
    SlugOrIdLookupMixin, CreateMixin, UpdateMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet
):  # fmt: skip
    """Shops: public to read, written by their owners."""

    queryset = Shop.objects.all()
    permission_classes = [ReadOnly | IsShopStaff]
    action_permission_classes = {"create": [HasRole.of("STORE_OWNER", "SUPER_ADMIN")]}
    serializer_class = ShopSerializer
    request_serializer_classes = {"create": NewShopSerializer, "update": ShopChangesSerializer}
    is_partial_update = True
    filterset_class = ShopFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Shop]":
        if self.action == "update":
            return Shop.objects.managed_by(self.request.auth.user)
        return Shop.objects.visible_to(current_user(self.request)).for_response().order_by("-id")

    def perform_create(self, serializer: Any) -> Shop:
        shop = services.create_shop(actor=self.request.auth.user, values=serializer.validated_data)
        return Shop.objects.for_response().get(pk=shop.pk)

    def perform_update(self, serializer: Any) -> Shop:
        shop_id, values = serializer.instance.pk, serializer.validated_data
        services.change_shop(actor=self.request.auth.user, shop_id=shop_id, values=values)
        return Shop.objects.for_response().get(pk=shop_id)


@schema.describe_my_shops
class MyShopViewSet(ListModelMixin, ApiViewSet):
    """The shops that the user owns or works in."""

    queryset = Shop.objects.all()
    permission_classes = [IsShopStaff]
    serializer_class = ShopSerializer
    filterset_class = ShopFilters
    pagination_class = ArrayPagination

    def get_queryset(self) -> "QuerySet[Shop]":
        return Shop.objects.for_user(self.request.auth.user).for_response().order_by("-id")


@schema.describe_new_shops
class NewShopViewSet(ListModelMixin, ApiViewSet):
    """Shops that wait for their activation."""

    queryset = Shop.objects.all()
    permission_classes = [HasRole.of("SUPER_ADMIN")]
    serializer_class = ShopSerializer
    filterset_class = NewShopFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Shop]":
        return Shop.objects.for_response().order_by("-id")


class ShopActivityView(APIView):
    """Activation of a shop, or the opposite."""

    permission_classes = [HasRole.of("SUPER_ADMIN")]
    is_active: ClassVar[bool]

    def post(self, request: Request) -> Response:
        body = ShopReferenceSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        shop_id, values = body.validated_data["id"], {"is_active": self.is_active}
        services.change_shop(actor=request.auth.user, shop_id=shop_id, values=values)
        return Response(ShopSerializer(Shop.objects.for_response().get(pk=shop_id), context={"request": request}).data)


@schema.describe_approve_shop
class ApproveShopView(ShopActivityView):
    """Activation of a shop."""

    is_active = True


@schema.describe_disapprove_shop
class DisapproveShopView(ShopActivityView):
    """Deactivation of a shop."""

    is_active = False


class NestedShopViewSet(ApiViewSet):
    """A resource of one shop, which only its owner may read and write."""

    permission_classes = [IsShopStaff]

    def get_shop(self) -> Shop:
        """Return the shop in the path. Raises ApiError 404 or 403 unless the user owns it."""
        user, shop_id = self.request.auth.user, self.kwargs["shop_id"]
        return services.get_owned_shop(actor=user, shop_id=shop_id)


@schema.describe_staff
class StaffViewSet(CreateMixin, DestroyMixin, ListModelMixin, NestedShopViewSet):
    """Staff members of a shop. POST invites one."""

    queryset = ShopStaff.objects.all()
    throttle_classes = [RateLimitThrottle.of("invitations", "CONTENT_WRITE_LIMIT")]
    serializer_class = StaffMemberSerializer
    request_serializer_classes = {"create": InviteStaffSerializer}
    response_serializer_classes = {"create": StaffInvitationSerializer}
    filterset_class = StaffFilters
    pagination_class = PagePagination
    lookup_field = lookup_url_kwarg = "user_id"

    def get_queryset(self) -> "QuerySet[ShopStaff]":
        return self.get_shop().staff.select_related("user").order_by("-id")

    def perform_create(self, serializer: Any) -> StaffInvitation:
        return invitations.invite_staff(
            actor=self.request.auth.user,
            shop_id=self.kwargs["shop_id"],
            **serializer.validated_data,
            now=timezone.now(),
        )

    def perform_destroy(self, instance: ShopStaff) -> None:
        services.remove_staff(actor=self.request.auth.user, shop_id=instance.shop_id, user_id=instance.user_id)


@schema.describe_staffs
class StaffOfShopsViewSet(StaffViewSet):
    """The same, for clients that send the shop in the query or the body."""

    permission_classes = [HasRole.of("STORE_OWNER", "SUPER_ADMIN")]
    request_serializer_classes = {"create": InviteStaffToShopSerializer}
    filterset_class = StaffOfShopsFilters

    def get_queryset(self) -> "QuerySet[ShopStaff]":
        shops = Shop.objects.managed_by(self.request.auth.user)
        return ShopStaff.objects.filter(shop__in=shops).select_related("user").order_by("-id")

    def perform_create(self, serializer: Any) -> StaffInvitation:
        return invitations.invite_staff(actor=self.request.auth.user, **serializer.validated_data, now=timezone.now())


@schema.describe_my_staffs
class MyStaffViewSet(ListModelMixin, ApiViewSet):
    """The list of the same, under another name that clients use."""

    queryset = ShopStaff.objects.all()
    permission_classes = [HasRole.of("STORE_OWNER", "SUPER_ADMIN")]
    serializer_class = StaffMemberSerializer
    filterset_class = StaffOfShopsFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[ShopStaff]":
        shops = Shop.objects.managed_by(self.request.auth.user)
        return ShopStaff.objects.filter(shop__in=shops).select_related("user").order_by("-id")


@schema.describe_all_staffs
class AllStaffViewSet(MyStaffViewSet):
    """The staff of all shops."""

    permission_classes = [HasRole.of("SUPER_ADMIN")]


@schema.describe_users
class UserViewSet(ListModelMixin, ApiViewSet):
    """All users, or those with one role."""

    queryset = User.objects.all()
    permission_classes = [HasRole.of("SUPER_ADMIN")]
    serializer_class = UserSerializer
    filterset_class = UserFilters
    pagination_class = PagePagination
    role: ClassVar[Role | None] = None

    def get_queryset(self) -> "QuerySet[User]":
        users = User.objects.order_by("-id")
        return users if self.role is None else users.filter(role=self.role)


@schema.describe_admins
class AdminViewSet(UserViewSet):
    """Super admins."""

    role = Role.SUPER_ADMIN


@schema.describe_vendors
class VendorViewSet(UserViewSet):
    """Store owners."""

    role = Role.STORE_OWNER


@schema.describe_customers
class CustomerViewSet(UserViewSet):
    """Customers."""

    role = Role.CUSTOMER


@schema.describe_invitations
class StaffInvitationViewSet(DestroyMixin, ListModelMixin, NestedShopViewSet):
    """Open invitations to the staff of a shop."""

    queryset = StaffInvitation.objects.all()
    serializer_class = StaffInvitationSerializer
    filterset_class = StaffInvitationFilters
    pagination_class = PagePagination
    lookup_url_kwarg = "invitation_id"

    def get_queryset(self) -> "QuerySet[StaffInvitation]":
        return StaffInvitation.objects.open(timezone.now()).filter(shop=self.get_shop()).order_by("-id")

    def perform_destroy(self, instance: StaffInvitation) -> None:
        invitations.withdraw_invitation(
            actor=self.request.auth.user, shop_id=instance.shop_id, invitation_id=instance.pk, now=timezone.now()
        )


@schema.describe_accept_invitation
class AcceptInvitationView(PublicView):
    """Acceptance of an invitation by its e-mailed token."""

    def post(self, request: Request) -> Response:
        body = AcceptInvitationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        address = str(request.META.get("REMOTE_ADDR", ""))
        decision = invitations.accept_invitation(**body.validated_data, address=address, now=timezone.now())
        return Response(True, headers=rate_limit_headers(decision))
