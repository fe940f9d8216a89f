"""Views of addresses."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request

from commerce.addresses import schema, services
from commerce.addresses.filters import AddressFilters
from commerce.addresses.models import Address
from commerce.addresses.serializers import AddressChangesSerializer, AddressSerializer, NewAddressSerializer
from shared.accounts.permissions import IsSignedIn
from shared.api.lists.pagination import ArrayPagination
from shared.api.query_params import MAX_LIMIT, get_boolean
from shared.api.viewsets import ApiViewSet, CreateMixin, DestroyMixin, UpdateMixin


class AddressArray(ArrayPagination):
    """An array of addresses: up to 1000, or up to 100 with `validate`, as each check takes time."""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        if get_boolean(request, "validate"):
            self.default_limit = MAX_LIMIT
        return super().paginate_queryset(queryset, request, view)


@schema.describe_addresses
class AddressViewSet(CreateMixin, UpdateMixin, DestroyMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Addresses of the signed-in user."""

    queryset = Address.objects.all()
    permission_classes = [IsSignedIn]
    serializer_class = AddressSerializer
    request_serializer_classes = {"create": NewAddressSerializer, "update": AddressChangesSerializer}
    filterset_class = AddressFilters
    pagination_class = AddressArray
    validates = False  # whether the response to a new address has `validation`

    def get_queryset(self) -> QuerySet[Address]:
        return Address.objects.for_user(self.request.auth.user)

    def get_serializer_context(self) -> dict[str, Any]:
        validates = self.validates if self.action == "create" else get_boolean(self.request, "validate")
        return {**super().get_serializer_context(), "validates": validates}

    def perform_create(self, serializer: Any) -> Address:
        fields = {"default": False} | serializer.validated_data
        self.validates = fields.pop("validate")
        return services.create_address(actor=self.request.auth.user, **fields, now=timezone.now())

    def perform_update(self, serializer: Any) -> Address:
        return services.update_address(
            customer=self.request.auth.user,
            address_id=serializer.instance.pk,
            changes=serializer.validated_data,
            now=timezone.now(),
        )

    def perform_destroy(self, instance: Address) -> None:
        services.delete_address(customer=self.request.auth.user, address_id=instance.pk)
