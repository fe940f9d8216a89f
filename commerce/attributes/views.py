"""Views of attributes, and of their export and import as CSV files."""

from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils import timezone
from rest_framework.generics import get_object_or_404
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.attributes import schema, services
from commerce.attributes.csv_files import read_csv, write_csv
from commerce.attributes.filters import AttributeFilters
from commerce.attributes.importers import import_attributes
from commerce.attributes.models import Attribute
from commerce.attributes.serializers import (
    AttributeChangesSerializer,
    AttributeImportSerializer,
    AttributeSerializer,
    ImportCountsSerializer,
    NewAttributeSerializer,
)
from commerce.shops.models import Shop
from shared.accounts.permissions import HasRole, ReadOnly, current_user
from shared.api.csv_views import CsvExportView, CsvImportView
from shared.api.lists.pagination import ArrayPagination
from shared.api.reads.conditional import public_read
from shared.api.viewsets import (
    ApiViewSet,
    CreateMixin,
    DestroyWithRecordMixin,
    SlugOrIdLookupMixin,
    UpdateMixin,
)

IsShopOwner = HasRole.of("STORE_OWNER", "SUPER_ADMIN")


@schema.describe_attributes
@public_read
class AttributeViewSet(
    SlugOrIdLookupMixin,
    CreateMixin,
    UpdateMixin,
    DestroyWithRecordMixin,
    ListModelMixin,
    RetrieveModelMixin,
    ApiViewSet,
):
    """Attributes: public to read, written by the owner of their shop."""

    queryset = Attribute.objects.all()
    permission_classes = [ReadOnly | IsShopOwner]
    serializer_class = AttributeSerializer
    request_serializer_classes = {"create": NewAttributeSerializer, "update": AttributeChangesSerializer}
    filterset_class = AttributeFilters
    pagination_class = ArrayPagination
    has_slug_per_language = True
    create_status_code = 200

    def get_queryset(self) -> "QuerySet[Attribute]":
        if self.action == "update":
            return Attribute.objects.all()
        if self.action == "destroy":
            return Attribute.objects.for_response()
        return Attribute.objects.visible_to(current_user(self.request)).for_response()

    def perform_create(self, serializer: Any) -> Attribute:
        attribute = services.create_attribute(
            actor=self.request.auth.user, **serializer.validated_data, now=timezone.now()
        )
        return Attribute.objects.for_response().get(pk=attribute.pk)

    def perform_update(self, serializer: Any) -> Attribute:
        attribute_id, changes = serializer.instance.pk, serializer.validated_data
        services.update_attribute(
            actor=self.request.auth.user, attribute_id=attribute_id, changes=changes, now=timezone.now()
        )
        return Attribute.objects.for_response().get(pk=attribute_id)

    def perform_destroy(self, instance: Attribute) -> None:
        services.delete_attribute(actor=self.request.auth.user, attribute_id=instance.pk)


@schema.describe_export
class ExportAttributesView(CsvExportView):
    """A shop's attributes as a CSV file."""

    permission_classes = [ReadOnly]

    def get(self, request: Request, shop_id: int) -> StreamingHttpResponse:
        shop = get_object_or_404(Shop.objects.visible_to(current_user(request)), pk=shop_id)
        chunks = write_csv(Attribute.objects.filter(shop=shop))
        return self.csv_response(request, chunks, f"attributes-{shop.pk}.csv")


@schema.describe_import
class ImportAttributesView(CsvImportView):
    """Import of a CSV file into a shop."""

    permission_classes = [IsShopOwner]

    def post(self, request: Request) -> Response:
        body = AttributeImportSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        shop_id, content = body.validated_data["shop_id"], body.validated_data["csv"].read()
        actor, now = request.auth.user, timezone.now()
        services.require_owned_shop(actor=actor, shop_id=shop_id)  # before the file is parsed
        counts = import_attributes(actor=actor, shop_id=shop_id, attributes=read_csv(content), now=now)
        return Response(ImportCountsSerializer(counts).data)
