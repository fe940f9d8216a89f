"""Who works in a shop, and how somebody comes to: /shops/{id}/staff, /shops/{id}/invitations, /accept-invitation."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.shops import invitations, services
from commerce.shops.filters import InvitationFilters, StaffFilters
from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.accounts.fields import MailboxField, PasswordField
from shared.accounts.permissions import HasRole
from shared.accounts.public_view import PublicView
from shared.api.pagination import PagedList
from shared.api.rate_limits import rate_limit_headers
from shared.api.throttles import RateLimit

# Of these roles; that it is the shop's owner, the services ask.
SHOP_PEOPLE = HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")


class StaffMemberSerializer(serializers.ModelSerializer[ShopStaff]):
    """Somebody who works in a shop. `id` is the user's; `created_at` when they came."""

    id = serializers.IntegerField(source="user_id")
    name = serializers.CharField(source="user.name")
    email = serializers.EmailField(source="user.email")

    class Meta:
        model = ShopStaff
        fields = ["id", "name", "email", "created_at"]


class InviteSerializer(serializers.Serializer[Any]):
    email = MailboxField()


class InvitationSerializer(serializers.ModelSerializer[StaffInvitation]):
    class Meta:
        model = StaffInvitation
        fields = ["id", "shop_id", "email", "created_at", "expires_at"]


class AcceptSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(max_length=1024)
    name = serializers.CharField(max_length=150)
    password = PasswordField()


def own_shop(view: APIView) -> Shop:
    """The shop in the path, for its owner."""
    return services.owned_shop(Shop.objects.all(), actor=view.request.auth.user, shop_id=view.kwargs["shop_id"])


@extend_schema_view(get=extend_schema(operation_id="staff", tags=["Shops"], summary="Who works in a shop"))
class StaffView(ListAPIView[ShopStaff]):
    """For the owner of the shop. Who came last is first."""

    permission_classes = [SHOP_PEOPLE]
    throttle_classes = [RateLimit.of("invitations", "CONTENT_WRITE_LIMIT")]
    queryset = ShopStaff.objects.all()
    serializer_class = StaffMemberSerializer
    filterset_class = StaffFilters
    pagination_class = PagedList

    def get_queryset(self) -> "QuerySet[ShopStaff]":
        return own_shop(self).staff.select_related("user").order_by("-id")

    @extend_schema(
        operation_id="invite_staff",
        tags=["Shops"],
        summary="Invite somebody to work in a shop",
        request=InviteSerializer,
        responses={201: InvitationSerializer},
    )
    def post(self, request: Request, shop_id: int) -> Response:
        """Sends a link to the e-mail. For the owner of the shop; the answer does not tell whether the e-mail is known.
        Sent again, only the last link works."""
        body = InviteSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        invitation = invitations.invite_staff(
            actor=request.auth.user, shop_id=shop_id, **body.validated_data, now=timezone.now()
        )
        return Response(InvitationSerializer(invitation).data, status=201)


class StaffMemberView(APIView):
    permission_classes = [SHOP_PEOPLE]

    @extend_schema(
        operation_id="remove_staff",
        tags=["Shops"],
        summary="End somebody's work in a shop",
        responses=OpenApiTypes.BOOL,
    )
    def delete(self, request: Request, shop_id: int, user_id: int) -> Response:
        """For the owner of the shop. From the next request on they are a customer, and sign in again."""
        services.remove_staff(actor=request.auth.user, shop_id=shop_id, user_id=user_id)
        return Response(True)


@extend_schema_view(get=extend_schema(operation_id="invitations", tags=["Shops"], summary="Who is invited to a shop"))
class InvitationListView(ListAPIView[StaffInvitation]):
    """The invitations that can still be accepted, the newest first. For the owner of the shop."""

    permission_classes = [SHOP_PEOPLE]
    queryset = StaffInvitation.objects.all()
    serializer_class = InvitationSerializer
    filterset_class = InvitationFilters
    pagination_class = PagedList

    def get_queryset(self) -> "QuerySet[StaffInvitation]":
        return StaffInvitation.objects.open(timezone.now()).filter(shop=own_shop(self)).order_by("-id")


class InvitationView(APIView):
    permission_classes = [SHOP_PEOPLE]

    @extend_schema(
        operation_id="withdraw_invitation",
        tags=["Shops"],
        summary="Take an invitation back",
        responses=OpenApiTypes.BOOL,
    )
    def delete(self, request: Request, shop_id: int, invitation_id: int) -> Response:
        """For the owner of the shop. The link in its letter ends."""
        invitations.withdraw_invitation(
            actor=request.auth.user, shop_id=shop_id, invitation_id=invitation_id, now=timezone.now()
        )
        return Response(True)


class AcceptInvitationView(PublicView):
    """A place in a shop, by the token of such a link; the name counts for somebody who has no account yet."""

    @extend_schema(
        operation_id="accept_invitation",
        tags=["Shops"],
        summary="Accept an invitation",
        request=AcceptSerializer,
        responses=OpenApiTypes.BOOL,
    )
    def post(self, request: Request) -> Response:
        body = AcceptSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        address = str(request.META.get("REMOTE_ADDR", ""))
        decision = invitations.accept_invitation(**body.validated_data, address=address, now=timezone.now())
        return Response(True, headers=rate_limit_headers(decision))
