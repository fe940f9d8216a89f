"""GET /me, and shops: read by everybody, written by their owners."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.shops import services
from commerce.shops.filters import ShopFilters
from commerce.shops.models import Shop
from commerce.shops.records import for_record
from commerce.shops.serializers import MeSerializer, NewShopSerializer, ShopSerializer, ShopWriteSerializer
from shared.accounts.permissions import HasRole, ReadOnly, asker
from shared.api.keys import KeyedView
from shared.api.pagination import PagedList


class MeView(APIView):
    @extend_schema(operation_id="me", tags=["Accounts"], summary="Who is signed in", responses=MeSerializer)
    def get(self, request: Request) -> Response:
        return Response(MeSerializer(request.auth.user, context={"request": request}).data)


@extend_schema_view(get=extend_schema(operation_id="shops", tags=["Shops"], summary="List shops"))
class ShopListView(ListAPIView[Shop]):
    """The active shops, newest first; to the people of a shop their own in any case."""

    permission_classes = [ReadOnly | HasRole.of("STORE_OWNER", "SUPER_ADMIN")]
    serializer_class = ShopSerializer
    filterset_class = ShopFilters
    pagination_class = PagedList

    def get_queryset(self) -> "QuerySet[Shop]":
        return for_record(Shop.objects.visible_to(asker(self.request))).order_by("-id")

    @extend_schema(
        operation_id="create_shop",
        tags=["Shops"],
        summary="Open a shop",
        request=NewShopSerializer,
        responses={201: ShopSerializer},
    )
    def post(self, request: Request) -> Response:
        """The shop is seen by others once a super admin has made it active."""
        body = NewShopSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        shop = services.create_shop(actor=request.auth.user, values=body.validated_data)
        return Response(self.get_serializer(self.get_queryset().get(pk=shop.pk)).data, status=201)


@extend_schema_view(get=extend_schema(operation_id="shop", tags=["Shops"], summary="Read a shop"))
class ShopView(KeyedView):
    """One shop, by slug or id."""

    permission_classes = [ReadOnly | HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")]
    serializer_class = ShopSerializer

    def get_queryset(self) -> "QuerySet[Shop]":
        return for_record(Shop.objects.visible_to(asker(self.request)))

    @extend_schema(
        operation_id="change_shop",
        tags=["Shops"],
        summary="Change a shop",
        request=ShopWriteSerializer(partial=True),
        responses=ShopSerializer,
    )
    def put(self, request: Request, **path: Any) -> Response:
        """Changes what is sent; for the owner of the shop."""
        actor = request.auth.user
        shop = self.find(Shop.objects.managed_by(actor))
        body = ShopWriteSerializer(data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        services.change_shop(actor=actor, shop_id=shop.pk, values=body.validated_data)
        return Response(self.get_serializer(self.get_object()).data)
