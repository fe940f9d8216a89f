"""Products that are nearly gone, for the people who order new ones."""

from typing import Any

from django.db.models import QuerySet
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page
from django.views.decorators.vary import vary_on_headers
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView

from commerce.catalog.filters import ProductFilters
from commerce.catalog.models import Product
from commerce.catalog.serializers import ProductSerializer
from commerce.catalog.views import with_pictures
from shared.accounts.permissions import HasRole, asker
from shared.api.query import query_limit
from shared.api.read_limits import limited_read

LIMIT = OpenApiParameter("limit", OpenApiTypes.INT, description="At most 100; more means 100. Default: 10.")


@extend_schema_view(
    get=extend_schema(
        operation_id="low_stock",
        tags=["Analytics"],
        summary="Products that are nearly gone",
        parameters=[LIMIT],
    )
)
@method_decorator(conditional_page, name="dispatch")
@method_decorator(cache_control(private=True, no_cache=True), name="dispatch")
@method_decorator(vary_on_headers("Authorization"), name="dispatch")
class LowStockView(ListAPIView[Product]):
    """Those with a quantity below 10, the lowest first: of your own shops, and for a super admin of all."""

    permission_classes = [HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")]
    serializer_class = ProductSerializer
    filterset_class = ProductFilters
    pagination_class = None

    def get_queryset(self) -> "QuerySet[Product]":
        user = asker(self.request)
        own = Product.objects.none() if user is None else Product.objects.managed_by(user)
        return with_pictures(own.low_stock())

    def filter_queryset(self, queryset: "QuerySet[Any]") -> Any:
        with limited_read(self.request, first_row=0):
            return list(super().filter_queryset(queryset)[: query_limit(self.request, default=10)])
