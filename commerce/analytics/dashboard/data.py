"""Data of the dashboard: each table is a list of dataclasses, from which the page and the CSV files are made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from django.utils.functional import cached_property

from commerce.analytics.dashboard.periods import (
    ChartColumns,
    ColumnSums,
    comparison_range,
    split_into_columns,
    sum_by_column,
    trim_empty_start,
)
from commerce.analytics.models import PeriodRollup
from commerce.analytics.reports.date_ranges import DateRange
from commerce.analytics.reports.products import (
    CategoryCount,
    category_languages,
    count_products_by_category,
    count_sales_by_category,
    product_languages,
    top_rated_products,
)
from commerce.analytics.reports.report import Report
from commerce.analytics.reports.results import SalesTotals, ShopTotals
from commerce.analytics.reports.sales_figures import AttributeSales, CustomerSales, ProductSales
from commerce.catalog.models import Product, ProductQuerySet
from shared.api.query_params import DEFAULT_LANGUAGE


@dataclass(frozen=True, kw_only=True)
class TotalsRow:
    """Totals of the period or the previous one; the rate of returning customers is of all time.

    What the sales report has is None while it is pending.
    """

    first: date
    last: date
    revenue: int
    placed_revenue: int | None
    refunds: int
    orders: int
    average_order_value: int | None
    new_customers: int
    returning_customer_rate: float | None


@dataclass(frozen=True, kw_only=True)
class PeriodRow:
    """A chart column beside the same column of the previous period, if there is one."""

    first: date
    last: date
    revenue: int
    placed_revenue: int | None
    refunds: int
    orders: int
    previous_first: date | None = None
    previous_last: date | None = None
    previous_revenue: int | None = None
    previous_placed_revenue: int | None = None
    previous_refunds: int | None = None
    previous_orders: int | None = None


@dataclass(frozen=True, kw_only=True)
class StatusRow:
    status: str
    orders: int
    placed_revenue: int | None


@dataclass(frozen=True, kw_only=True)
class CategorySalesRow(CategoryCount):
    revenue: int | None


@dataclass(frozen=True, kw_only=True)
class RatedProductRow:
    product_id: int
    name: str
    stars: float
    reviews: int


@dataclass(frozen=True, kw_only=True)
class LowStockRow:
    product_id: int
    name: str
    sku: str
    shop: str
    left: int


class DashboardData:
    """The data of a report for a date range, each compared with the previous range of the same length."""

    def __init__(self, report: Report, *, date_range: DateRange, chosen_language: str | None) -> None:
        self.report, self.date_range, self.chosen_language = report, date_range, chosen_language
        self.figures = report.figures
        self.previous_range = comparison_range(date_range)

    @cached_property
    def language(self) -> str:
        """Return the language of products and categories: the chosen one, or English as in the API.

        Shops without English products get the most frequent language of their products.
        """
        if self.chosen_language:
            return self.chosen_language
        own = self._product_languages
        return own[0] if own and DEFAULT_LANGUAGE not in own else DEFAULT_LANGUAGE

    @cached_property
    def languages(self) -> list[str]:
        """Return the languages to choose from; more than one if anything is not English."""
        of_categories = category_languages(shop_ids=self.report.scope.shop_ids)
        return sorted({DEFAULT_LANGUAGE, self.language, *self._product_languages, *of_categories})

    @cached_property
    def totals(self) -> SalesTotals:
        return self.report.totals(self.date_range)

    @cached_property
    def previous_totals(self) -> SalesTotals | None:
        return self.report.totals(self.previous_range) if self.previous_range else None

    @cached_property
    def columns(self) -> ChartColumns:
        return split_into_columns(self._charted_range)

    @cached_property
    def over_time(self) -> list[ColumnSums]:
        return self._column_sums(self.columns)

    @cached_property
    def previous_over_time(self) -> list[ColumnSums]:
        """Return the columns of the previous range, in the same unit; there may be one month more or less."""
        if self.previous_range is None:
            return []
        return self._column_sums(split_into_columns(self.previous_range, self.columns.unit))

    def totals_rows(self, limit: int) -> list[TotalsRow]:
        pairs = [(self.date_range, self.totals), (self.previous_range, self.previous_totals)]
        return [
            TotalsRow(
                first=date_range.first,
                last=date_range.last,
                revenue=totals.revenue,
                placed_revenue=totals.placed_revenue,
                refunds=totals.refunds,
                orders=totals.orders,
                average_order_value=totals.average_order_value,
                new_customers=totals.new_customers,
                returning_customer_rate=self.figures.returning_customer_rate if self.figures else None,
            )
            for date_range, totals in pairs[:limit]
            if date_range and totals
        ]

    def period_rows(self, limit: int) -> list[PeriodRow]:
        previous = self.previous_over_time
        return [
            PeriodRow(
                **_period_columns(sums),
                **(_period_columns(previous[index], "previous_") if index < len(previous) else {}),
            )
            for index, sums in enumerate(self.over_time[:limit])
        ]

    def status_rows(self, limit: int) -> list[StatusRow]:
        counts = self.totals.by_status
        placed = self.figures.placed_by_status(self.date_range) if self.figures else {}
        rows = [StatusRow(status=key, orders=counts[key], placed_revenue=placed.get(key)) for key in counts]
        return rows[:limit]

    def shop_rows(self, limit: int) -> list[ShopTotals]:
        return self.report.by_shop(self.date_range, limit=limit)

    def category_sales_rows(self, limit: int) -> list[CategorySalesRow]:
        scope = self.report.scope
        counts = count_sales_by_category(
            shop_ids=scope.shop_ids, language=self.language, limit=limit, currency=scope.currency
        )
        find = self.figures.revenue_by_category(self.language) if self.figures else lambda category, shop: None
        return [CategorySalesRow(**asdict(row), revenue=find(row.category_id, row.shop_id)) for row in counts]

    def attribute_sales_rows(self, limit: int) -> list[AttributeSales]:
        return self.figures.by_attribute(self.language, limit) if self.figures else []

    def top_product_rows(self, limit: int) -> list[ProductSales]:
        return self.figures.top_products(self.language, limit) if self.figures else []

    def top_customer_rows(self, limit: int) -> list[CustomerSales]:
        return self.figures.top_customers(limit) if self.figures else []

    def category_product_rows(self, limit: int) -> list[CategoryCount]:
        return count_products_by_category(
            shop_ids=self.report.scope.shop_ids, language=self.language, limit=limit
        )  # fmt: skip

    def top_rated_rows(self, limit: int) -> list[RatedProductRow]:
        rows = top_rated_products(shop_ids=self.report.scope.shop_ids, language=self.language, limit=limit)
        return [
            RatedProductRow(
                product_id=row.product.pk, name=row.product.name, stars=round(row.average, 2), reviews=row.reviews
            )
            for row in rows
        ]

    def low_stock_rows(self, limit: int) -> list[LowStockRow]:
        products = self._products.filter(language=self.language).low_stock()
        rows = products.values_list("pk", "name", "sku", "shop__name", "quantity")[:limit]
        return [
            LowStockRow(product_id=pk, name=name, sku=sku, shop=shop, left=left) for pk, name, sku, shop, left in rows
        ]

    @property
    def _products(self) -> ProductQuerySet:
        shop_ids = self.report.scope.shop_ids
        return Product.objects.all() if shop_ids is None else Product.objects.filter(shop__in=shop_ids)

    @cached_property
    def _product_languages(self) -> list[str]:
        return product_languages(shop_ids=self.report.scope.shop_ids)

    @cached_property
    def _charted_range(self) -> DateRange:
        """Return the range; for all time without the years before the first order."""
        if self.previous_range is not None:
            return self.date_range
        points = self.report.series(self.date_range, by=PeriodRollup.Grain.MONTH)
        return trim_empty_start(points, self.date_range) or DateRange(self.date_range.last, self.date_range.last)

    def _column_sums(self, columns: ChartColumns) -> list[ColumnSums]:
        date_range = DateRange(columns.ranges[0].first, columns.ranges[-1].last)
        placed = self.figures.placed_by_day() if self.figures else None
        return sum_by_column(self.report.series(date_range, by=columns.grain), columns, placed)


DashboardTable = tuple[type[Any], Callable[[DashboardData, int], Sequence[Any]]]
# The row type and the read of each table, by the name of its CSV file.
TABLES: Mapping[str, DashboardTable] = {
    "totals": (TotalsRow, DashboardData.totals_rows),
    "over-time": (PeriodRow, DashboardData.period_rows),
    "statuses": (StatusRow, DashboardData.status_rows),
    "shops": (ShopTotals, DashboardData.shop_rows),
    "category-sales": (CategorySalesRow, DashboardData.category_sales_rows),
    "attribute-sales": (AttributeSales, DashboardData.attribute_sales_rows),
    "top-products": (ProductSales, DashboardData.top_product_rows),
    "top-customers": (CustomerSales, DashboardData.top_customer_rows),
    "category-products": (CategoryCount, DashboardData.category_product_rows),
    "top-rated": (RatedProductRow, DashboardData.top_rated_rows),
    "low-stock": (LowStockRow, DashboardData.low_stock_rows),
}
# Tables that have no rows while the sales report is pending.
SALES_REPORT_TABLES = frozenset({"attribute-sales", "top-products", "top-customers"})


def _period_columns(sums: ColumnSums, prefix: str = "") -> dict[str, Any]:
    measures = {name: getattr(sums, name) for name in ("revenue", "placed_revenue", "refunds", "orders")}
    columns = {"first": sums.date_range.first, "last": sums.date_range.last} | measures
    return {f"{prefix}{name}": value for name, value in columns.items()}
