"""Views of analytics, for shop owners, their staff and super admins."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.analytics import schema
from commerce.analytics.query_params import parse_compare, parse_currency, parse_date_range, parse_shop_id
from commerce.analytics.reports.products import (
    count_products_by_category,
    count_sales_by_category,
    top_rated_products,
)
from commerce.analytics.reports.report import open_report, read_sales_figures
from commerce.analytics.reports.sales_figures import SalesFigures
from commerce.analytics.reports.scopes import ReportScope, scope_for_user
from commerce.analytics.serializers import (
    AttributeSalesListSerializer,
    CategoryProductsSerializer,
    CategorySalesSerializer,
    RankingSerializer,
    TopCustomersSerializer,
    TopProductsSerializer,
    TopRatedSerializer,
    overview_body,
)
from commerce.catalog.filters import ProductFilters
from commerce.catalog.models import Product
from shared import transactions
from shared.accounts.permissions import HasRole
from shared.api.limits.query_limits import limit_list_query
from shared.api.lists.pagination import count_fitting
from shared.api.lists.search import build_search_condition
from shared.api.query_params import get_language, get_limit
from shared.api.reads.conditional import private_read

Rank = Callable[[SalesFigures, int], Sequence[Any]]  # from the limit of rows to them


@private_read
class AnalyticsView(APIView):
    """A read that only the client may cache, and revalidate with `If-None-Match`."""

    permission_classes = [HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")]

    def get_scope(self) -> ReportScope:
        return scope_for_user(
            self.request.auth.user, shop_id=parse_shop_id(self.request), currency=parse_currency(self.request)
        )


class ProductReportView(AnalyticsView):
    """A report on products, which `search` narrows as it does the list of products."""

    default_limit = 15

    def get_query(self, scope: ReportScope | None = None) -> dict[str, Any]:
        """Return the arguments of a report. Raises ValidationFailed for an invalid parameter."""
        return {
            "shop_ids": (scope or self.get_scope()).shop_ids,
            "language": get_language(self.request),
            "limit": get_limit(self.request, default=self.default_limit),
            "matching": build_search_condition(Product, ProductFilters.search_fields, self.request.query_params),
        }

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with transactions.read_snapshot(), limit_list_query(self.request, first_row=0):
            yield


class OverviewView(AnalyticsView):
    @schema.overview
    def get(self, request: Request) -> Response:
        compare = parse_compare(request)
        with open_report(self.get_scope(), now=timezone.now()) as report:
            return Response(overview_body(report, date_range=parse_date_range(request, report.today), compare=compare))


class CategoryProductsView(ProductReportView):
    @schema.category_products
    def get(self, request: Request) -> Response:
        query = self.get_query()
        with self.snapshot():
            rows = count_products_by_category(**query)
        return Response(CategoryProductsSerializer(rows, many=True).data)


class CategorySalesView(ProductReportView):
    @schema.category_sales
    def get(self, request: Request) -> Response:
        scope, find = self.get_scope(), None
        query = self.get_query(scope) | {"currency": parse_currency(request)}
        with self.snapshot():
            rows = count_sales_by_category(**query)
        if rows and not query["matching"]:
            figures = read_sales_figures(scope, now=timezone.now(), columns=["categories"])
            find = figures.revenue_by_category(query["language"]) if figures else None
        context = {"revenue": find, "currency": scope.currency}
        return Response(CategorySalesSerializer(rows, many=True, context=context).data)


class TopRatedView(ProductReportView):
    default_limit = 10

    @schema.top_rated
    def get(self, request: Request) -> Response:
        query = self.get_query()
        with self.snapshot():
            rows = top_rated_products(**query)
        records = list(TopRatedSerializer(rows, many=True, context={"request": request}).data)
        return Response(records[: count_fitting(records)])


class RankingView(AnalyticsView):
    """A ranking of the sales report."""

    def ranking(self, serializer: type[RankingSerializer], column: str, rank: Rank) -> Response:
        """Return the response with the rows of a column. Raise ValidationFailed for an invalid parameter."""
        scope, limit = self.get_scope(), get_limit(self.request, default=10)
        figures = read_sales_figures(scope, now=timezone.now(), columns=[column])
        body = {
            "currency": scope.currency,
            "as_of": figures.as_of if figures else None,
            "pending": figures is None,
            "data": rank(figures, limit) if figures else None,
        }
        return Response(serializer(body, context={"currency": scope.currency}).data)


class TopCustomersView(RankingView):
    @schema.top_customers
    def get(self, request: Request) -> Response:
        return self.ranking(TopCustomersSerializer, "customers", SalesFigures.top_customers)


class TopProductsView(RankingView):
    @schema.top_products
    def get(self, request: Request) -> Response:
        language = get_language(request)
        return self.ranking(
            TopProductsSerializer, "products", lambda figures, limit: figures.top_products(language, limit)
        )


class AttributeSalesView(RankingView):
    @schema.attribute_sales
    def get(self, request: Request) -> Response:
        language = get_language(request)
        return self.ranking(
            AttributeSalesListSerializer, "attributes", lambda figures, limit: figures.by_attribute(language, limit)
        )
