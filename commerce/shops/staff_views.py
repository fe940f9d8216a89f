"""POST /shops/{id}/staff and /accept-invitation: how somebody comes to work in a shop."""

from typing import Any

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.shops import invitations
from commerce.shops.models import StaffInvitation
from shared.accounts.permissions import HasRole
from shared.accounts.views import PublicView
from shared.api.rate_limits import rate_limit_headers
from shared.api.throttles import RateLimit


class InviteSerializer(serializers.Serializer[Any]):
    email = serializers.EmailField()


class InvitationSerializer(serializers.ModelSerializer[StaffInvitation]):
    class Meta:
        model = StaffInvitation
        fields = ["id", "shop_id", "email", "created_at", "expires_at"]


class AcceptSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(max_length=1024)
    name = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=1024, trim_whitespace=False, write_only=True)


class StaffView(APIView):
    """The people of a shop."""

    permission_classes = [HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")]
    throttle_classes = [RateLimit.of("invitations", "CONTENT_WRITE_LIMIT")]

    @extend_schema(
        operation_id="invite_staff",
        tags=["Shops"],
        summary="Invite somebody to work in a shop",
        request=InviteSerializer,
        responses={201: InvitationSerializer},
    )
    def post(self, request: Request, pk: int) -> Response:
        """Sends a link to the e-mail. For the owner of the shop; the answer does not tell whether the e-mail is known.
        Sent again, only the last link works."""
        body = InviteSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        invitation = invitations.invite_staff(
            actor=request.auth.user, shop_id=pk, **body.validated_data, now=timezone.now()
        )
        return Response(InvitationSerializer(invitation).data, status=201)


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
