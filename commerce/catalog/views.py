"""Views of products, product types, categories and tags."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.catalog import schema, services, taxonomy
from commerce.catalog.facets import count_facets
from commerce.catalog.filters import (
    BestSellingFilters,
    CategoryFilters,
    ProductFilters,
    ProductSearchFilters,
    TagFilters,
    TypeFilters,
    is_text_search,
)
from commerce.catalog.models import Category, Product, ProductQuerySet, ProductType, Tag
from commerce.catalog.search.pagination import SearchPagination
from commerce.catalog.search.services import limit_search, similar_products, suggest
from commerce.catalog.serializers import (
    CategorySerializer,
    CategoryWriteSerializer,
    FoundProductSerializer,
    NewCategorySerializer,
    NewProductSerializer,
    NewTagSerializer,
    NewTypeSerializer,
    ProductSerializer,
    ProductWriteSerializer,
    SuggestionsSerializer,
    TagSerializer,
    TagWriteSerializer,
    TypeSerializer,
    TypeWriteSerializer,
)
from commerce.shops.models import Shop
from shared.accounts.permissions import HasRole, ReadOnly, current_user
from shared.api.errors import ValidationFailed
from shared.api.lists.pagination import ArrayPagination, PagePagination, count_fitting, fitting_rows
from shared.api.lists.search import MAX_SEARCH_LENGTH
from shared.api.query_params import get_boolean, get_language, get_limit, parse_integer
from shared.api.reads.conditional import private_read, public_read
from shared.api.viewsets import (
    ApiViewSet,
    CreateMixin,
    DestroyWithRecordMixin,
    SlugOrIdLookupMixin,
    UpdateMixin,
)

# The services check which shops a user with one of these roles owns or works in.
IsShopStaff = HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")
WRITE_ACTIONS = ("update", "destroy")


@schema.describe_products
@public_read
class ProductViewSet(
    SlugOrIdLookupMixin,
    CreateMixin,
    UpdateMixin,
    DestroyWithRecordMixin,
    ListModelMixin,
    RetrieveModelMixin,
    ApiViewSet,
):
    """Products: public to read, written by the staff of their shop."""

    queryset = Product.objects.all()
    permission_classes = [ReadOnly | IsShopStaff]
    serializer_class = ProductSerializer
    request_serializer_classes = {"create": NewProductSerializer, "update": ProductWriteSerializer}
    response_serializer_classes = {"search": FoundProductSerializer, "suggest": SuggestionsSerializer}
    is_partial_update = True
    filterset_class = ProductFilters
    pagination_class = schema.ProductPagination
    has_slug_per_language = True

    @property
    def indexed_parameters(self) -> tuple[str, ...]:
        return ("search",) if is_text_search(self.request.query_params.get("search", "")) else ()

    @action(detail=False, filterset_class=ProductSearchFilters, pagination_class=SearchPagination)
    def search(self, request: Request) -> Response:
        return self.list(request)

    @action(detail=True, pagination_class=None)
    def similar(self, request: Request, **path: Any) -> Response:
        public, limit = Product.objects.public().for_response(), get_limit(request, default=10)
        products = similar_products(product=self.get_object(), products=public, limit=limit)
        records = self.get_serializer(fitting_rows(products, request, self), many=True).data
        return Response(records[: count_fitting(records)])

    @action(detail=False, filter_backends=[], pagination_class=None)
    def suggest(self, request: Request) -> Response:
        text, language = request.query_params.get("q", ""), get_language(request)
        if len(text) > MAX_SEARCH_LENGTH:
            raise ValidationFailed({"q": [f"Send at most {MAX_SEARCH_LENGTH} characters."]})
        public = Product.objects.public().filter(language=language)
        with limit_search("q"):
            products = suggest(text=text, language=language, products=public)
        return Response(SuggestionsSerializer({"data": products}).data)

    def get_queryset(self) -> "QuerySet[Product]":
        user = current_user(self.request)
        if self.action in WRITE_ACTIONS:
            return Product.objects.managed_by(self.request.auth.user).for_response()
        if self.detail:
            return Product.objects.visible_to(user).for_response()
        products = Product.objects.live() if self._is_own_shop() else Product.objects.public()
        return products.for_response().order_by("-id")

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return the page, with facets if the query has `facets=1`."""
        with_facets = get_boolean(request, "facets")
        response = super().list(request, *args, **kwargs)
        if with_facets:
            response.data["facets"] = count_facets(
                self.get_queryset(),
                request.query_params,
                request=request,
                is_public=not self._is_own_shop(),
                filters=self.filterset_class,
            )
        return response

    def perform_create(self, serializer: Any) -> Product:
        values = dict(serializer.validated_data)
        shop_id = values.pop("shop_id")
        return services.create_product(actor=self.request.auth.user, shop_id=shop_id, values=values, now=timezone.now())

    def perform_update(self, serializer: Any) -> Product:
        product_id, values = serializer.instance.pk, serializer.validated_data
        services.change_product(actor=self.request.auth.user, product_id=product_id, values=values, now=timezone.now())
        return Product.objects.for_response().get(pk=product_id)

    def perform_destroy(self, instance: Product) -> None:
        services.delete_product(actor=self.request.auth.user, product_id=instance.pk, now=timezone.now())

    def _is_own_shop(self) -> bool:
        """Return whether `shop_id` in the query is a shop that the user owns or works in."""
        user, shop_id = current_user(self.request), parse_integer(self.request.query_params.get("shop_id", ""))
        if user is None or shop_id is None:
            return False
        return Shop.objects.managed_by(user).filter(pk=shop_id).exists()


class TenProductsArray(ArrayPagination):
    """An array of 10 products, or of `limit`."""

    default_limit = 10


class ManagedProductsMixin(ListModelMixin, ApiViewSet):
    """A list of products of the user's shops."""

    queryset = Product.objects.all()
    permission_classes = [IsShopStaff]
    serializer_class = ProductSerializer
    filterset_class = ProductFilters

    def managed(self) -> ProductQuerySet:
        user = current_user(self.request)
        return Product.objects.none() if user is None else Product.objects.managed_by(user)


@schema.describe_low_stock
@private_read
class LowStockViewSet(ManagedProductsMixin):
    """Products of the user's shops that are nearly out of stock."""

    pagination_class = TenProductsArray

    def get_queryset(self) -> "QuerySet[Product]":
        return self.managed().low_stock().for_response()


@schema.describe_stock
class StockViewSet(LowStockViewSet):
    """The same products in pages."""

    pagination_class = schema.ManagedProductPagination  # type: ignore[assignment]


@schema.describe_drafts
@private_read
class DraftProductViewSet(ManagedProductsMixin):
    """Products of the user's shops that are not published."""

    pagination_class = schema.ManagedProductPagination

    def get_queryset(self) -> "QuerySet[Product]":
        return self.managed().unpublished().for_response().order_by("-id")


@schema.describe_best_selling
@public_read
class BestSellingViewSet(ListModelMixin, ApiViewSet):
    """Products of which the most pieces were sold: public to read."""

    queryset = Product.objects.all()
    permission_classes = [ReadOnly]
    serializer_class = ProductSerializer
    filterset_class = BestSellingFilters
    pagination_class = TenProductsArray

    def get_queryset(self) -> "QuerySet[Product]":
        return Product.objects.public().for_response().order_by("-sold_quantity", "-pk")


@schema.describe_popular
class PopularViewSet(BestSellingViewSet):
    """The same products, under another name that clients use."""


@public_read
class TaxonomyViewSet(
    SlugOrIdLookupMixin,
    CreateMixin,
    UpdateMixin,
    DestroyWithRecordMixin,
    ListModelMixin,
    RetrieveModelMixin,
    ApiViewSet,
):
    """Product types, categories or tags: public to read, written by super admins."""

    permission_classes = [ReadOnly | HasRole.of("SUPER_ADMIN")]
    is_partial_update = True
    has_slug_per_language = True

    def perform_create(self, serializer: Any) -> Any:
        return taxonomy.save_entry(entry=self.get_queryset().model(), values=serializer.validated_data)

    def perform_update(self, serializer: Any) -> Any:
        return taxonomy.save_entry(entry=serializer.instance, values=serializer.validated_data)

    def perform_destroy(self, instance: ProductType | Category | Tag) -> None:
        taxonomy.delete_entry(entry=instance)


@schema.describe_types
class TypeViewSet(TaxonomyViewSet):
    """Product types."""

    queryset = ProductType.objects.order_by("id")
    serializer_class = TypeSerializer
    request_serializer_classes = {"create": NewTypeSerializer, "update": TypeWriteSerializer}
    filterset_class = TypeFilters
    pagination_class = ArrayPagination


@schema.describe_categories
class CategoryViewSet(TaxonomyViewSet):
    """Categories of products."""

    queryset = Category.objects.for_response().order_by("id")
    serializer_class = CategorySerializer
    request_serializer_classes = {"create": NewCategorySerializer, "update": CategoryWriteSerializer}
    filterset_class = CategoryFilters
    pagination_class = PagePagination

    def perform_update(self, serializer: Any) -> Any:
        return self.get_queryset().get(pk=super().perform_update(serializer).pk)  # with the new depths below it


@schema.describe_tags
class TagViewSet(TaxonomyViewSet):
    """Tags of products."""

    queryset = Tag.objects.order_by("id")
    serializer_class = TagSerializer
    request_serializer_classes = {"create": NewTagSerializer, "update": TagWriteSerializer}
    filterset_class = TagFilters
    pagination_class = PagePagination
