"""Views of exports and imports of products and variations."""

from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils import timezone
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from commerce.catalog.models import Product, Variation
from commerce.catalog.services import require_managed_shop
from commerce.catalog.transfer import schema
from commerce.catalog.transfer.product_files import read_products, write_products
from commerce.catalog.transfer.product_import import WrittenCounts, import_products
from commerce.catalog.transfer.serializers import (
    ImportResultSerializer,
    ProductImportSerializer,
    VariationImportSerializer,
)
from commerce.catalog.transfer.variation_files import read_variations, write_variations
from commerce.catalog.transfer.variation_import import import_variations
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.permissions import HasRole, ReadOnly, current_user
from shared.api.csv_views import CsvExportView, CsvImportView

# The services check which shops a user with one of these roles owns or works in.
IsShopStaff = HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")


def exported_products(request: Request, shop_id: int) -> "QuerySet[Product]":
    """Return the shop's products that the user may see in lists. Raises Http404 for a shop that they may not see."""
    user = current_user(request)
    shop = get_object_or_404(Shop.objects.visible_to(user), pk=shop_id)
    is_managed = user is not None and Shop.objects.managed_by(user).filter(pk=shop.pk).exists()
    products = Product.objects.live() if is_managed else Product.objects.public()
    return products.filter(shop=shop)


@schema.describe_export_products
class ExportProductsView(CsvExportView):
    """A shop's products as a CSV file."""

    permission_classes = [ReadOnly]

    def get(self, request: Request, shop_id: int) -> StreamingHttpResponse:
        chunks = write_products(exported_products(request, shop_id))
        return self.csv_response(request, chunks, f"products-{shop_id}.csv")


@schema.describe_export_variations
class ExportVariationsView(CsvExportView):
    """The variations of a shop's products as a CSV file."""

    permission_classes = [ReadOnly]

    def get(self, request: Request, shop_id: int) -> StreamingHttpResponse:
        products = exported_products(request, shop_id)
        chunks = write_variations(Variation.objects.visible_to(None).filter(product__in=products))
        return self.csv_response(request, chunks, f"variation-options-{shop_id}.csv")


class ImportView(CsvImportView):
    """Import of a CSV file into a shop."""

    permission_classes = [IsShopStaff]
    serializer_class: type[Serializer[Any]]

    def import_file(self, actor: User, shop_id: int, content: bytes) -> WrittenCounts:
        raise NotImplementedError

    def post(self, request: Request) -> Response:
        body = self.serializer_class(data=request.data)
        body.is_valid(raise_exception=True)
        shop_id, content = body.validated_data["shop_id"], body.validated_data["csv"].read()
        actor = request.auth.user
        require_managed_shop(actor=actor, shop_id=shop_id)  # before the file is parsed
        return Response(ImportResultSerializer(self.import_file(actor, shop_id, content)).data)


@schema.describe_import_products
class ImportProductsView(ImportView):
    """Import of products."""

    serializer_class = ProductImportSerializer

    def import_file(self, actor: User, shop_id: int, content: bytes) -> WrittenCounts:
        return import_products(actor=actor, shop_id=shop_id, products=read_products(content), now=timezone.now())


@schema.describe_import_variations
class ImportVariationsView(ImportView):
    """Import of variations."""

    serializer_class = VariationImportSerializer

    def import_file(self, actor: User, shop_id: int, content: bytes) -> WrittenCounts:
        variations = read_variations(content)
        return import_variations(actor=actor, shop_id=shop_id, variations=variations, now=timezone.now())
