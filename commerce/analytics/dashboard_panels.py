"""The dashboard's figures in words, tables and charts, as its template takes them."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from commerce.analytics.dashboard_charts import Chart, Series, columns_chart
from commerce.analytics.dashboard_figures import DashboardFigures
from commerce.analytics.dashboard_periods import Sold, long_label, short_label
from commerce.analytics.goods import CategoryCount
from commerce.catalog.models import LOW_STOCK
from commerce.config.admin_money import format_money
from commerce.orders.models import Order

ROWS = 10  # of a table; its CSV file has more


@dataclass(frozen=True, kw_only=True)
class Tile:
    name: str
    value: str
    earlier: str = ""
    change: str = ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of a table; `share` is the length of its bar, as CSS takes it."""

    label: str
    cells: Sequence[str]
    url: str = ""
    share: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A table with its words, and over it a chart where it is of more than one moment. `table` names its CSV file."""

    name: str
    title: str
    table: str
    note: str
    header: Sequence[str]
    lines: Sequence[Line]
    empty: str
    chart: Chart | None = None
    x_title: str = ""
    y_title: str = ""
    legend: Sequence[str] = ()
    words: Sequence[int] = ()  # the cells that are no numbers, from 1


def tiles(figures: DashboardFigures) -> list[Tile]:
    now, earlier, currency = figures.sums, figures.sums_before, figures.report.scope.currency
    return [
        _tile("Revenue", now.revenue, earlier.revenue if earlier else None, currency),
        _tile("Orders", now.orders, earlier.orders if earlier else None),
        _tile("Refunds", now.refunds, earlier.refunds if earlier else None, currency),
        _tile("New customers", now.new_customers, earlier.new_customers if earlier else None),
    ]


def charts(figures: DashboardFigures) -> list[Panel]:
    currency = figures.report.scope.currency
    return [
        _over_time(
            figures, "revenue", "Revenue", "Of orders that are complete, by the day they were placed.", currency
        ),
        _over_time(figures, "orders", "Orders", "In any state, by the day they were placed."),
        _over_time(figures, "refunds", "Refunds", "By the day they were approved.", currency),
    ]


def statuses(figures: DashboardFigures) -> Panel:
    rows = figures.statuses(len(Order.Status))
    total = sum(row.orders for row in rows)
    names = dict(Order.Status.choices)
    lines = [
        Line(
            label=names[row.status],
            cells=[f"{row.orders:,}", f"{row.orders / total:.1%}"],
            share=f"{row.orders / total:.1%}",
        )
        for row in rows
        if row.orders
    ]
    return Panel(
        name="statuses",
        title="Orders by state",
        table="statuses",
        note="Of the orders placed in these days, as they are now.",
        header=["State", "Orders", "Share"],
        lines=lines,
        empty="No orders in these days.",
    )


def shops(figures: DashboardFigures, query: str) -> Panel:
    """Each shop leads to its own figures; `query` is what else they are asked with."""
    rows, currency = figures.shops(ROWS), figures.report.scope.currency
    most = max((row.revenue for row in rows), default=0)
    lines = [
        Line(
            label=row.name,
            url=f"{reverse('dashboard')}?shop_id={row.shop_id}&{query}",
            cells=[format_money(row.revenue, currency), f"{row.orders:,}", format_money(row.refunds, currency)],
            share=_share(row.revenue, most),
        )
        for row in rows
    ]
    return Panel(
        name="shops",
        title="By shop",
        table="shops",
        note="What their parts of the orders brought, without delivery and tax. Most revenue first.",
        header=["Shop", "Revenue", "Orders", "Refunds"],
        lines=lines,
        empty="No shop sold anything in these days.",
    )


def category_sales(figures: DashboardFigures) -> Panel:
    return Panel(
        name="category-sales",
        title="Pieces sold by category",
        table="category-sales",
        note=_of_language(
            figures, "Of all time, in orders that are complete. What stands in two categories counts in both."
        ),
        header=["Category", "Shop", "Pieces"],
        words=[1],
        lines=_of_categories(figures.category_sales(ROWS)),
        empty=_none_of_language(figures, "Nothing was sold yet."),
    )


def category_products(figures: DashboardFigures) -> Panel:
    return Panel(
        name="category-products",
        title="Products by category",
        table="category-products",
        note=_of_language(figures, "As they are now, in any status."),
        header=["Category", "Shop", "Products"],
        words=[1],
        lines=_of_categories(figures.category_products(ROWS)),
        empty=_none_of_language(figures, "No product stands in a category yet."),
    )


def top_rated(figures: DashboardFigures, *, with_links: bool) -> Panel:
    rows = figures.top_rated(ROWS)
    lines = [
        Line(
            label=row.name,
            url=_product_url(row.product_id) if with_links else "",
            cells=[f"{row.stars:.2f}", f"{row.reviews:,}"],
        )
        for row in rows
    ]
    return Panel(
        name="top-rated",
        title="Top rated products",
        table="top-rated",
        note=_of_language(figures, "Of all time, by their average of one to five stars."),
        header=["Product", "Stars", "Reviews"],
        lines=lines,
        empty=_none_of_language(figures, "No reviews yet."),
    )


def low_stock(figures: DashboardFigures, *, with_links: bool) -> Panel:
    lines = [
        Line(
            label=row.name,
            url=_product_url(row.product_id) if with_links else "",
            cells=[row.shop, row.sku or "\u2013", f"{row.left:,}"],
        )
        for row in figures.low_stock(ROWS)
    ]
    return Panel(
        name="low-stock",
        title="Low stock",
        table="low-stock",
        note=_of_language(figures, f"Fewer than {LOW_STOCK} pieces left now, fewest first."),
        header=["Product", "Shop", "SKU", "Left"],
        words=[1, 2],
        lines=lines,
        empty=_none_of_language(figures, f"Every product has {LOW_STOCK} pieces or more."),
    )


def _tile(name: str, now: int, earlier: int | None, currency: str = "") -> Tile:
    value = _value(now, currency)
    if earlier is None:
        return Tile(name=name, value=value)
    if now and not earlier:
        return Tile(name=name, value=value, change="none before")
    change = "no change" if now == earlier else f"{now / earlier - 1:+.1%}"
    return Tile(name=name, value=value, earlier=_value(earlier, currency), change=change)


def _over_time(figures: DashboardFigures, measure: str, title: str, note: str, currency: str = "") -> Panel:
    columns, earlier = figures.over_time, figures.over_time_before
    unit = figures.columns.unit
    header = ["Days" if unit != "day" else "Day", title]
    lines = [[_value(getattr(sold, measure), currency)] for sold in columns]
    if earlier:
        header += ["Before that", title]
        for number, line in enumerate(lines):
            line += _compared(earlier[number], measure, currency) if number < len(earlier) else ["\u2013", "\u2013"]
    every = [getattr(sold, measure) for sold in [*columns, *earlier]]
    chart = columns_chart(
        [short_label(sold.span, unit) for sold in columns],
        _series(columns, measure, currency),
        _series(earlier, measure, currency),
        currency=currency,
    )
    return Panel(
        name=measure,
        title=title,
        table="over-time",
        note=note,
        header=header,
        words=[2],
        lines=[Line(label=long_label(sold.span), cells=line) for sold, line in zip(columns, lines, strict=True)],
        empty="" if any(every) else "Nothing in these days.",
        chart=chart if any(every) else None,
        x_title=f"{unit}, {figures.report.zone.key}",
        y_title=f"{title} ({currency})" if currency else title,
        legend=["these days", *(["the days before"] if earlier else [])],
    )


def _compared(sold: Sold, measure: str, currency: str) -> list[str]:
    return [long_label(sold.span), _value(getattr(sold, measure), currency)]


def _series(columns: Sequence[Sold], measure: str, currency: str) -> Series:
    values = [getattr(sold, measure) for sold in columns]
    texts = [f"{long_label(sold.span)}: {_value(value, currency)}" for sold, value in zip(columns, values, strict=True)]
    return Series(values=values, texts=texts)


def _of_language(figures: DashboardFigures, note: str) -> str:
    """Where there are several, a note says of which language the products or categories are."""
    return f"{note} Language: {figures.language}." if len(figures.languages) > 1 else note


def _none_of_language(figures: DashboardFigures, empty: str) -> str:
    """What holds of one language alone is not said of all."""
    return "Nothing of this language." if len(figures.languages) > 1 else empty


def _of_categories(rows: Sequence[CategoryCount]) -> list[Line]:
    most = max((row.count for row in rows), default=0)
    return [
        Line(label=row.category_name, cells=[row.shop_name, f"{row.count:,}"], share=_share(row.count, most))
        for row in rows
    ]


def _value(number: int, currency: str) -> str:
    return format_money(number, currency) if currency else f"{number:,}"


def _share(number: int, most: int) -> str:
    return f"{max(number, 0) / most:.1%}" if most > 0 else "0%"


def _product_url(product_id: int) -> str:
    return reverse("admin:commerce_catalog_product_change", args=[product_id])
