"""Attributes: read by everybody, written by the owner of their shop; and the same as CSV."""

from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView, get_object_or_404
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.attributes import services
from commerce.attributes.filters import AttributeFilters
from commerce.attributes.importers import import_attributes
from commerce.attributes.models import Attribute
from commerce.attributes.serializers import (
    AttributeChangesSerializer,
    AttributeSerializer,
    ImportResultSerializer,
    ImportSerializer,
    NewAttributeSerializer,
)
from commerce.attributes.spreadsheets import read_sheet, write_sheet
from commerce.shops.models import Shop
from shared.accounts.permissions import HasRole, ReadOnly, asker
from shared.api.keys import KeyedView
from shared.api.pagination import BareArray

OWNS_SHOPS = HasRole.of("STORE_OWNER", "SUPER_ADMIN")


@extend_schema_view(get=extend_schema(operation_id="attributes", tags=["Attributes"], summary="List attributes"))
class AttributeListView(ListAPIView[Attribute]):
    """All attributes in one language, English unless `language` names another."""

    permission_classes = [ReadOnly | OWNS_SHOPS]
    queryset = Attribute.objects.all()
    serializer_class = AttributeSerializer
    filterset_class = AttributeFilters
    pagination_class = BareArray

    def get_queryset(self) -> "QuerySet[Attribute]":
        return Attribute.objects.visible_to(asker(self.request)).for_record()

    @extend_schema(
        operation_id="create_attribute",
        tags=["Attributes"],
        summary="Add an attribute to a shop",
        request=NewAttributeSerializer,
        responses=AttributeSerializer,
    )
    def post(self, request: Request) -> Response:
        """For the owner of the shop."""
        new = NewAttributeSerializer(data=request.data)
        new.is_valid(raise_exception=True)
        attribute = services.create_attribute(actor=request.auth.user, **new.validated_data, now=timezone.now())
        return Response(self.get_serializer(_record(attribute)).data)


@extend_schema_view(
    get=extend_schema(
        operation_id="attribute",
        tags=["Attributes"],
        summary="Read an attribute",
        description="By id, or by slug and `language`, which is English unless named.",
    )
)
class AttributeView(KeyedView):
    """One attribute, by id, or by slug and `language`."""

    permission_classes = [ReadOnly | OWNS_SHOPS]
    queryset = Attribute.objects.all()
    serializer_class = AttributeSerializer
    filterset_class = AttributeFilters
    has_languages = True

    def get_queryset(self) -> "QuerySet[Attribute]":
        return Attribute.objects.visible_to(asker(self.request)).for_record()

    @extend_schema(
        operation_id="change_attribute",
        tags=["Attributes"],
        summary="Change an attribute",
        request=AttributeChangesSerializer,
        responses=AttributeSerializer,
    )
    def put(self, request: Request, **path: Any) -> Response:
        """Changes what is sent, for the owner of the shop, and of the shop that it moves to."""
        found = self.find(Attribute.objects.all())
        changes = AttributeChangesSerializer(data=request.data)
        changes.is_valid(raise_exception=True)
        attribute = services.update_attribute(
            actor=request.auth.user, attribute_id=found.pk, changes=changes.validated_data, now=timezone.now()
        )
        return Response(self.get_serializer(_record(attribute)).data)

    @extend_schema(
        operation_id="delete_attribute",
        tags=["Attributes"],
        summary="Delete an attribute",
        responses={200: AttributeSerializer},
    )
    def delete(self, request: Request, **path: Any) -> Response:
        """For the owner of the shop. Answers the attribute as it was."""
        attribute = self.find(Attribute.objects.for_record())
        record = self.get_serializer(attribute).data
        services.delete_attribute(actor=request.auth.user, attribute_id=attribute.pk)
        return Response(record)


class ExportAttributesView(APIView):
    permission_classes = [ReadOnly]

    @extend_schema(
        operation_id="export_attributes",
        tags=["Attributes"],
        summary="A shop's attributes as CSV",
        responses={(200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Request, shop_id: int) -> HttpResponse:
        """Columns: name, slug, language, value, meta; a line a value. Where a spreadsheet would take a cell for a
        formula, it begins with an apostrophe."""
        shop = get_object_or_404(Shop.objects.visible_to(asker(request)), pk=shop_id)
        sheet = write_sheet(Attribute.objects.filter(shop=shop).prefetch_related("values"))
        disposition = f'attachment; filename="attributes-{shop.pk}.csv"'
        return HttpResponse(sheet, content_type="text/csv; charset=utf-8", headers={"Content-Disposition": disposition})

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """The answer is CSV whatever is accepted, as a browser's link asks; errors are JSON."""
        return super().perform_content_negotiation(request, force=True)


class ImportAttributesView(APIView):
    permission_classes = [OWNS_SHOPS]
    parser_classes = [MultiPartParser]

    @extend_schema(
        operation_id="import_attributes",
        tags=["Attributes"],
        summary="Add attributes from CSV",
        request={"multipart/form-data": ImportSerializer},
        responses=ImportResultSerializer,
    )
    def post(self, request: Request) -> Response:
        """For the owner of the shop: every line, or none. What the shop has already is kept, and its `meta` changed; a
        second time changes nothing."""
        sent = ImportSerializer(data=request.data)
        sent.is_valid(raise_exception=True)
        shop_id, content = sent.validated_data["shop_id"], sent.validated_data["csv"].read()
        actor, now = request.auth.user, timezone.now()
        services.require_shop(actor=actor, shop_id=shop_id)  # before the work of reading it
        imported = import_attributes(actor=actor, shop_id=shop_id, sheet=read_sheet(content), now=now)
        return Response(ImportResultSerializer(imported).data)


def _record(attribute: Attribute) -> Attribute:
    return Attribute.objects.for_record().get(pk=attribute.pk)
