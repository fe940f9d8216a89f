"""What the dashboard shows, read: each table is a list of dataclasses, of which the page and the CSV files are made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from commerce.analytics import goods
from commerce.analytics.calendars import Span
from commerce.analytics.dashboard_periods import Columns, Sold, before, columns_of, summed, without_years_before
from commerce.analytics.goods import CategoryCount
from commerce.analytics.models import Figure
from commerce.analytics.reports import Report, ShopSums, Sums
from commerce.catalog.models import Product, ProductQuerySet
from shared.api.query import DEFAULT_LANGUAGE


@dataclass(frozen=True, kw_only=True)
class Period:
    """A column of the charts, beside the one of the period before, where there is one."""

    first: date
    last: date
    revenue: int
    refunds: int
    orders: int
    previous_first: date | None = None
    previous_last: date | None = None
    previous_revenue: int | None = None
    previous_refunds: int | None = None
    previous_orders: int | None = None


@dataclass(frozen=True, kw_only=True)
class StatusCount:
    status: str
    orders: int


@dataclass(frozen=True, kw_only=True)
class Rated:
    product_id: int
    name: str
    stars: float
    reviews: int


@dataclass(frozen=True, kw_only=True)
class Scarce:
    product_id: int
    name: str
    sku: str
    shop: str
    left: int


class DashboardFigures:
    """The figures of a report in some days, each compared with as many days before."""

    def __init__(self, report: Report, *, span: Span, asked_language: str | None) -> None:
        self.report, self.span, self.asked_language = report, span, asked_language
        self.span_before = before(span)

    @cached_property
    def language(self) -> str:
        """Of the products and categories: the one that was asked for, else English as in the API. Of shops without
        any English product it is the language of most of theirs, as `goods.product_languages` counts."""
        if self.asked_language:
            return self.asked_language
        own = self._product_languages
        return own[0] if own and DEFAULT_LANGUAGE not in own else DEFAULT_LANGUAGE

    @cached_property
    def languages(self) -> list[str]:
        """What may be chosen: more than one where there is anything that is not English."""
        of_categories = goods.category_languages(shop_ids=self.report.scope.shop_ids)
        return sorted({DEFAULT_LANGUAGE, self.language, *self._product_languages, *of_categories})

    @cached_property
    def sums(self) -> Sums:
        return self.report.sums(self.span)

    @cached_property
    def sums_before(self) -> Sums | None:
        return self.report.sums(self.span_before) if self.span_before else None

    @cached_property
    def columns(self) -> Columns:
        return columns_of(self._shown)

    @cached_property
    def over_time(self) -> list[Sold]:
        return self._sold(self.columns)

    @cached_property
    def over_time_before(self) -> list[Sold]:
        """The columns of the period before: of the same unit, though there may be one more or less of months."""
        if self.span_before is None:
            return []
        return self._sold(columns_of(self.span_before, self.columns.unit))

    def periods(self, limit: int) -> list[Period]:
        earlier = self.over_time_before
        return [
            Period(
                first=sold.span.first,
                last=sold.span.last,
                revenue=sold.revenue,
                refunds=sold.refunds,
                orders=sold.orders,
                **(_as_previous(earlier[number]) if number < len(earlier) else {}),
            )
            for number, sold in enumerate(self.over_time[:limit])
        ]

    def statuses(self, limit: int) -> list[StatusCount]:
        counts = self.sums.by_status
        return [StatusCount(status=status, orders=counts[status]) for status in counts][:limit]

    def shops(self, limit: int) -> list[ShopSums]:
        return self.report.by_shop(self.span, limit=limit)

    def category_sales(self, limit: int) -> list[CategoryCount]:
        scope = self.report.scope
        return goods.category_sales(
            shop_ids=scope.shop_ids, language=self.language, limit=limit, currency=scope.currency
        )

    def category_products(self, limit: int) -> list[CategoryCount]:
        return goods.category_products(shop_ids=self.report.scope.shop_ids, language=self.language, limit=limit)

    def top_rated(self, limit: int) -> list[Rated]:
        rows = goods.top_rated(shop_ids=self.report.scope.shop_ids, language=self.language, limit=limit)
        return [
            Rated(product_id=row.product.pk, name=row.product.name, stars=round(row.average, 2), reviews=row.reviews)
            for row in rows
        ]

    def low_stock(self, limit: int) -> list[Scarce]:
        products = self._products.filter(language=self.language).low_stock()
        rows = products.values_list("pk", "name", "sku", "shop__name", "quantity")[:limit]
        return [Scarce(product_id=pk, name=name, sku=sku, shop=shop, left=left) for pk, name, sku, shop, left in rows]

    @property
    def _products(self) -> ProductQuerySet:
        shop_ids = self.report.scope.shop_ids
        return Product.objects.all() if shop_ids is None else Product.objects.filter(shop__in=shop_ids)

    @cached_property
    def _product_languages(self) -> list[str]:
        return goods.product_languages(shop_ids=self.report.scope.shop_ids)

    @cached_property
    def _shown(self) -> Span:
        """Without the years before the first order, where all time was asked for."""
        if self.span_before is not None:
            return self.span
        points = self.report.series(self.span, by=Figure.Grain.MONTH)
        return without_years_before(points, self.span) or Span(self.span.last, self.span.last)

    def _sold(self, columns: Columns) -> list[Sold]:
        span = Span(columns.spans[0].first, columns.spans[-1].last)
        return summed(self.report.series(span, by=columns.grain), columns)


Table = tuple[type[Any], Callable[[DashboardFigures, int], Sequence[Any]]]
TABLES: Mapping[str, Table] = {
    "over-time": (Period, DashboardFigures.periods),
    "statuses": (StatusCount, DashboardFigures.statuses),
    "shops": (ShopSums, DashboardFigures.shops),
    "category-sales": (CategoryCount, DashboardFigures.category_sales),
    "category-products": (CategoryCount, DashboardFigures.category_products),
    "top-rated": (Rated, DashboardFigures.top_rated),
    "low-stock": (Scarce, DashboardFigures.low_stock),
}


def _as_previous(sold: Sold) -> dict[str, Any]:
    return {
        "previous_first": sold.span.first,
        "previous_last": sold.span.last,
        "previous_revenue": sold.revenue,
        "previous_refunds": sold.refunds,
        "previous_orders": sold.orders,
    }
