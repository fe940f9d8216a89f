"""Addresses: each user's own, and nobody else's."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from commerce.addresses import services
from commerce.addresses.filters import AddressFilters
from commerce.addresses.models import Address
from commerce.addresses.serializers import AddressChangesSerializer, AddressSerializer, NewAddressSerializer
from shared.accounts.permissions import HasRole
from shared.accounts.roles import Role
from shared.api.pagination import BareArray
from shared.api.query import LARGEST_LIMIT, query_truth

VALIDATE = OpenApiParameter("validate", bool, description="1: each address carries `validation`; at most 100 come.")


class AddressArray(BareArray):
    """Advice takes its time: a list with it is no longer than one that names its own limit may be."""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        if query_truth(request, "validate"):
            self.default_limit = LARGEST_LIMIT
        return super().paginate_queryset(queryset, request, view)


@extend_schema(tags=["Addresses"])
@extend_schema_view(
    list=extend_schema(summary="Your addresses", parameters=[VALIDATE]),
    retrieve=extend_schema(summary="One of your addresses", parameters=[VALIDATE]),
)
class AddressViewSet(ListModelMixin, RetrieveModelMixin, GenericViewSet[Address]):
    permission_classes = [HasRole.of(*Role)]
    queryset = Address.objects.all()
    serializer_class = AddressSerializer
    filterset_class = AddressFilters
    pagination_class = AddressArray

    def get_queryset(self) -> QuerySet[Address]:
        return Address.objects.for_user(self.request.auth.user)

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "validates": query_truth(self.request, "validate")}

    @extend_schema(summary="Add an address", request=NewAddressSerializer, responses={201: AddressSerializer})
    def create(self, request: Request) -> Response:
        new = NewAddressSerializer(data=request.data)
        new.is_valid(raise_exception=True)
        fields = {"default": False} | new.validated_data
        validates = fields.pop("validate")
        row = services.create_address(actor=request.auth.user, **fields, now=timezone.now())
        return Response(AddressSerializer(row, context={"validates": validates}).data, status=201)

    @extend_schema(summary="Change an address", request=AddressChangesSerializer)
    def update(self, request: Request, pk: int) -> Response:
        changes = AddressChangesSerializer(data=request.data)
        changes.is_valid(raise_exception=True)
        row = services.update_address(
            customer=request.auth.user, address_id=pk, changes=changes.validated_data, now=timezone.now()
        )
        return Response(self.get_serializer(row).data)

    @extend_schema(summary="Delete an address", responses={200: OpenApiTypes.BOOL})
    def destroy(self, request: Request, pk: int) -> Response:
        services.delete_address(customer=request.auth.user, address_id=pk)
        return Response(True)
