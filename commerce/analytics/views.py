"""The figures, for the people of the shops and for the platform. Who has seen them already is told so in 304."""

from typing import Any

from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page
from django.views.decorators.vary import vary_on_headers
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.analytics import goods, reports, scopes
from commerce.analytics.filters import asked_comparison, asked_currency, asked_shop, asked_span
from commerce.analytics.serializers import (
    CategoryProductsSerializer,
    CategorySalesSerializer,
    OverviewSerializer,
    TopRatedSerializer,
    overview_body,
)
from shared.accounts.permissions import HasRole
from shared.api import snapshots
from shared.api.query import query_language, query_limit

SHOP_PEOPLE = HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")
SHOP = OpenApiParameter("shop_id", OpenApiTypes.INT, description="One shop alone: of yours, or for a super admin any.")
CURRENCY = OpenApiParameter("currency", OpenApiTypes.STR, description="As in EUR.")
LANGUAGE = OpenApiParameter("language", OpenApiTypes.STR, description="Default: en.")


def limit_of(default: int) -> OpenApiParameter:
    text = f"At most 100; more means 100. Default: {default}."
    return OpenApiParameter("limit", OpenApiTypes.INT, description=text)


@method_decorator(conditional_page, name="dispatch")
@method_decorator(cache_control(private=True, no_cache=True), name="dispatch")
@method_decorator(vary_on_headers("Authorization"), name="dispatch")
class FiguresView(APIView):
    """A GET that is kept by nobody else, and asked again with `If-None-Match`."""

    permission_classes = [SHOP_PEOPLE]

    def scope(self, request: Request) -> scopes.Scope:
        return scopes.scope_of(
            request.auth.user,
            shop_id=asked_shop(request),
            currency=asked_currency(request),
        )


class OverviewView(FiguresView):
    @extend_schema(
        operation_id="analytics",
        tags=["Analytics"],
        summary="Revenue, orders, customers",
        parameters=[
            OpenApiParameter("from", OpenApiTypes.DATE, description="The first day of the totals."),
            OpenApiParameter("to", OpenApiTypes.DATE, description="The last day of the totals; default: today."),
            SHOP,
            OpenApiParameter("currency", OpenApiTypes.STR, description="Default: the platform's."),
            OpenApiParameter("compare", enum=["previous"], description="Also those of as many days before `from`."),
        ],
        responses=OverviewSerializer,
    )
    def get(self, request: Request) -> Response:
        """Of the platform for a super admin, of your own shops for everybody else. `from` and `to` bound the totals
        and the new customers; today, the last 7, 30 and 365 days and this year's months are always there."""
        compare = asked_comparison(request)
        with reports.opened(self.scope(request), now=timezone.now()) as report:
            overview = report.overview(span=asked_span(request, report.today), compare=compare)
        return Response(overview_body(overview))


class CategoryProductsView(FiguresView):
    @extend_schema(
        operation_id="category_products",
        tags=["Analytics"],
        summary="Products in each category",
        parameters=[limit_of(15), LANGUAGE, SHOP],
        responses=CategoryProductsSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """By category and shop, most first."""
        asked: dict[str, Any] = {"language": query_language(request), "limit": query_limit(request, default=15)}
        scope = self.scope(request)
        with snapshots.read():
            rows = goods.category_products(shop_ids=scope.shop_ids, **asked)
        return Response(CategoryProductsSerializer(rows, many=True).data)


class CategorySalesView(FiguresView):
    @extend_schema(
        operation_id="category_sales",
        tags=["Analytics"],
        summary="Pieces sold in each category",
        parameters=[limit_of(15), LANGUAGE, SHOP, CURRENCY],
        responses=CategorySalesSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """Of complete orders, by category and shop, most first."""
        asked: dict[str, Any] = {"language": query_language(request), "limit": query_limit(request, default=15)}
        scope = self.scope(request)
        with snapshots.read():
            rows = goods.category_sales(shop_ids=scope.shop_ids, currency=asked_currency(request), **asked)
        return Response(CategorySalesSerializer(rows, many=True).data)


class TopRatedView(FiguresView):
    @extend_schema(
        operation_id="top_rated",
        tags=["Analytics"],
        summary="The best rated products",
        parameters=[limit_of(10), LANGUAGE, SHOP],
        responses=TopRatedSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """By the average of their stars, then by the number of reviews."""
        asked: dict[str, Any] = {"language": query_language(request), "limit": query_limit(request, default=10)}
        scope = self.scope(request)
        with snapshots.read():
            rows = goods.top_rated(shop_ids=scope.shop_ids, **asked)
        return Response(TopRatedSerializer(rows, many=True, context={"request": request}).data)
