"""Products: read by everybody, written by the people of their shop."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.catalog import services
from commerce.catalog.filters import ProductFilters
from commerce.catalog.models import Product
from commerce.catalog.serializers import NewProductSerializer, ProductSerializer, ProductWriteSerializer
from commerce.shops.models import Shop
from shared.accounts.permissions import HasRole, ReadOnly, asker
from shared.api.keys import KeyedView
from shared.api.pagination import PagedList
from shared.api.query import whole_number

SHOP_PEOPLE = HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")


def with_pictures(products: "QuerySet[Product]") -> "QuerySet[Product]":
    """All that a record shows without `with`."""
    return products.select_related("image").prefetch_related("gallery")


@extend_schema_view(get=extend_schema(operation_id="products", tags=["Products"], summary="List products"))
class ProductListView(ListAPIView[Product]):
    """Published products of active shops, newest first. With `shop_id`, the people of that shop get its products in any
    status."""

    permission_classes = [ReadOnly | SHOP_PEOPLE]
    serializer_class = ProductSerializer
    filterset_class = ProductFilters
    pagination_class = PagedList

    def get_queryset(self) -> "QuerySet[Product]":
        products = Product.objects.live() if self._asks_for_own_shop() else Product.objects.public()
        return with_pictures(products).order_by("-id")

    @extend_schema(
        operation_id="create_product",
        tags=["Products"],
        summary="Add a product to a shop",
        request=NewProductSerializer,
        responses={201: ProductSerializer},
    )
    def post(self, request: Request) -> Response:
        body = NewProductSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        values = dict(body.validated_data)
        product = services.create_product(
            actor=request.auth.user, shop_id=values.pop("shop_id"), values=values, now=timezone.now()
        )
        return Response(self.get_serializer(product).data, status=201)

    def _asks_for_own_shop(self) -> bool:
        user, shop_id = asker(self.request), whole_number(self.request.query_params.get("shop_id", ""))
        if user is None or shop_id is None:
            return False
        return Shop.objects.managed_by(user).filter(pk=shop_id).exists()


@extend_schema_view(get=extend_schema(operation_id="product", tags=["Products"], summary="Read a product"))
class ProductView(KeyedView):
    """One product, by slug (in `language`, default en) or id. The people of its shop find it in any status."""

    permission_classes = [ReadOnly | SHOP_PEOPLE]
    serializer_class = ProductSerializer
    filterset_class = ProductFilters
    has_languages = True

    def get_queryset(self) -> "QuerySet[Product]":
        return with_pictures(Product.objects.visible_to(asker(self.request)))

    @extend_schema(
        operation_id="change_product",
        tags=["Products"],
        summary="Change a product",
        request=ProductWriteSerializer(partial=True),
        responses=ProductSerializer,
    )
    def put(self, request: Request, **path: Any) -> Response:
        """Changes what is sent. `variations`, when sent, is the whole list."""
        actor = request.auth.user
        product = self.find(Product.objects.managed_by(actor))
        body = ProductWriteSerializer(product, data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        services.change_product(actor=actor, product_id=product.pk, values=body.validated_data, now=timezone.now())
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(
        operation_id="delete_product", tags=["Products"], summary="Delete a product", responses=ProductSerializer
    )
    def delete(self, request: Request, **path: Any) -> Response:
        """Answers the record as it was. Orders keep the product."""
        product = self.find(with_pictures(Product.objects.managed_by(request.auth.user)))
        services.delete_product(actor=request.auth.user, product_id=product.pk, now=timezone.now())
        return Response(self.get_serializer(product).data)
