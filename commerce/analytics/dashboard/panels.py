"""Panels of the dashboard: its data as tiles, tables and charts for the templates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from commerce.analytics.dashboard.charts import ChartSeries, ColumnChart, column_chart
from commerce.analytics.dashboard.data import CategorySalesRow, DashboardData
from commerce.analytics.dashboard.periods import ColumnSums, axis_label, day_label, range_label
from commerce.analytics.reports.products import CategoryCount
from commerce.analytics.reports.sales_figures import AttributeSales, CustomerSales, ProductSales
from commerce.catalog.admin_money import format_money
from commerce.catalog.models import LOW_STOCK_QUANTITY
from commerce.orders.models import Order

MAX_ROWS = 10  # the CSV file of a table has more
NO_VALUE = "\u2013"
Sales = AttributeSales | ProductSales | CustomerSales

PENDING = gettext_lazy("Being computed. Reload the page in a few seconds.")
COMPLETING = gettext_lazy("Sales count once an order is complete: move orders on as they are delivered.")
UNITS: Mapping[str, str | Promise] = {
    "day": gettext_lazy("day"),
    "week": gettext_lazy("week"),
    "month": gettext_lazy("month"),
    "year": gettext_lazy("year"),
}


@dataclass(frozen=True, kw_only=True)
class Tile:
    name: str
    value: str
    previous: str = ""
    change: str = ""


@dataclass(frozen=True, kw_only=True)
class PanelRow:
    """A row of a table; `bar_width` is a CSS width for the bar beside its label."""

    label: str
    cells: Sequence[str]
    url: str = ""
    bar_width: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A table with its texts, and a chart above it if it covers a period. `table` names its CSV file."""

    name: str
    title: str
    table: str
    note: str
    header: Sequence[str]
    rows: Sequence[PanelRow]
    empty: str
    chart: ColumnChart | None = None
    x_title: str = ""
    y_title: str = ""
    legend: Sequence[tuple[int, str]] = ()  # numbers of swatches, and texts
    text_columns: Sequence[int] = ()  # the cells that are not numbers, from 1


def tiles(data: DashboardData) -> list[Tile]:
    current, previous, currency = data.totals, data.previous_totals, data.report.scope.currency
    average, previous_average = current.average_order_value, previous.average_order_value if previous else None
    return [
        _tile(_("Revenue"), current.revenue, previous.revenue if previous else None, currency),
        _tile(_("Placed revenue"), current.placed_revenue, previous.placed_revenue if previous else None, currency),
        _tile(_("Orders"), current.orders, previous.orders if previous else None),
        _tile(_("Average order value"), average, previous_average, currency),
        _tile(_("Refunds"), current.refunds, previous.refunds if previous else None, currency),
        _tile(_("New customers"), current.new_customers, previous.new_customers if previous else None),
        _returning_customers_tile(data),
    ]


def chart_panels(data: DashboardData) -> list[Panel]:
    currency = data.report.scope.currency
    return [
        _chart_panel(data, "revenue", _("Revenue"), _revenue_note(data), currency),
        _chart_panel(data, "orders", _("Orders"), _("Orders in any status, by the day they were placed.")),
        _chart_panel(data, "refunds", _("Refunds"), _("Approved refunds, by the day of their approval."), currency),
    ]


def statuses_panel(data: DashboardData) -> Panel:
    counts = data.status_rows(len(Order.Status))
    total = sum(row.orders for row in counts)
    names = dict(Order.Status.choices)
    return Panel(
        name="statuses",
        title=_("Orders by status"),
        table="statuses",
        note=_("Orders placed in this period, by their status now."),
        header=[_("Status"), _("Orders"), _("Share"), _("Placed")],
        rows=[
            PanelRow(
                label=_(names[row.status]),
                cells=[f"{row.orders:,}", f"{row.orders / total:.1%}", _money(data, row.placed_revenue)],
                bar_width=f"{row.orders / total:.1%}",
            )
            for row in counts
            if row.orders
        ],
        empty=_("No orders in this period. Choose a longer one above."),
    )


def shops_panel(data: DashboardData, query: str) -> Panel:
    """Return the table of shops; each links to its own dashboard, with the rest of the query."""
    shops, currency = data.shop_rows(MAX_ROWS), data.report.scope.currency
    max_revenue = max((row.revenue for row in shops), default=0)
    return Panel(
        name="shops",
        title=_("By shop"),
        table="shops",
        note=_("Revenue without delivery and tax, highest first."),
        header=[_("Shop"), _("Revenue"), _("Orders"), _("Refunds")],
        rows=[
            PanelRow(
                label=row.name,
                url=f"{reverse('dashboard')}?shop_id={row.shop_id}&{query}",
                cells=[format_money(row.revenue, currency), f"{row.orders:,}", format_money(row.refunds, currency)],
                bar_width=_percentage(row.revenue, max_revenue),
            )
            for row in shops
        ],
        empty=_("No shop sold anything in this period. Choose a longer one above."),
    )


def category_sales_panel(data: DashboardData) -> Panel:
    rows = data.category_sales_rows(MAX_ROWS)
    note = _("Complete orders of all time; revenue%(as_of)s. A product in two categories counts in both.")
    return Panel(
        name="category-sales",
        title=_("Sales by category"),
        table="category-sales",
        note=_with_language(data, note % {"as_of": _as_of(data)}),
        header=[_("Category"), _("Shop"), _("Units"), _("Revenue")],
        text_columns=[1],
        rows=[
            replace(panel_row, cells=[*panel_row.cells, _money(data, row.revenue)])
            for panel_row, row in zip(_category_rows(rows), rows, strict=True)
        ],
        empty=_empty_text(data, _("Nothing has been sold yet.") + f" {COMPLETING}"),
    )


def attribute_sales_panel(data: DashboardData) -> Panel:
    return Panel(
        name="attribute-sales",
        title=_("Sales by attribute"),
        table="attribute-sales",
        note=_with_language(data, _("Variations in complete orders of all time%(as_of)s.") % {"as_of": _as_of(data)}),
        header=[_("Value"), _("Attribute"), _("Shop"), _("Units"), _("Revenue")],
        text_columns=[1, 2],
        rows=_ranked_rows(
            data,
            data.attribute_sales_rows(MAX_ROWS),
            lambda row: PanelRow(label=row.value, cells=[row.attribute, row.shop, f"{row.units:,}"]),
        ),
        empty=_report_empty_text(
            data, _("No variation has been sold yet. Give products attributes and variations to compare their sales.")
        ),
    )


def top_products_panel(data: DashboardData, *, with_links: bool) -> Panel:
    return Panel(
        name="top-products",
        title=_("Products by revenue"),
        table="top-products",
        note=_with_language(data, _("Complete orders of all time%(as_of)s.") % {"as_of": _as_of(data)}),
        header=[_("Product"), _("Shop"), _("Units"), _("Revenue")],
        text_columns=[1],
        rows=_ranked_rows(
            data,
            data.top_product_rows(MAX_ROWS),
            lambda row: PanelRow(
                label=row.name,
                url=_product_url(row.product_id) if with_links else "",
                cells=[row.shop, f"{row.units:,}"],
            ),
        ),
        empty=_report_empty_text(data, _("Nothing has been sold yet.") + f" {COMPLETING}"),
    )


def top_customers_panel(data: DashboardData, *, with_links: bool) -> Panel:
    return Panel(
        name="top-customers",
        title=_("Customers by revenue"),
        table="top-customers",
        note=_("Revenue of complete orders and number of all orders, of all time%(as_of)s.") % {"as_of": _as_of(data)},
        header=[_("Customer"), _("Orders"), _("Revenue")],
        rows=_ranked_rows(
            data,
            data.top_customer_rows(MAX_ROWS),
            lambda row: PanelRow(
                label=row.name,
                url=reverse("admin:accounts_user_change", args=[row.customer_id]) if with_links else "",
                cells=[f"{row.orders:,}"],
            ),
        ),
        empty=_("No customer has a complete order yet.") + f" {COMPLETING}" if data.figures else str(PENDING),
    )


def category_products_panel(data: DashboardData) -> Panel:
    return Panel(
        name="category-products",
        title=_("Products by category"),
        table="category-products",
        note=_with_language(data, _("Products of today, in any status.")),
        header=[_("Category"), _("Shop"), _("Products")],
        text_columns=[1],
        rows=_category_rows(data.category_product_rows(MAX_ROWS)),
        empty=_empty_text(data, _("No product is in a category yet. Choose categories when you edit a product.")),
    )


def top_rated_panel(data: DashboardData, *, with_links: bool) -> Panel:
    return Panel(
        name="top-rated",
        title=_("Top rated products"),
        table="top-rated",
        note=_with_language(data, _("Average of one to five stars, over all time.")),
        header=[_("Product"), _("Stars"), _("Reviews")],
        rows=[
            PanelRow(
                label=row.name,
                url=_product_url(row.product_id) if with_links else "",
                cells=[f"{row.stars:.2f}", f"{row.reviews:,}"],
            )
            for row in data.top_rated_rows(MAX_ROWS)
        ],
        empty=_empty_text(data, _("No reviews yet. Customers can write them once their order is complete.")),
    )


def low_stock_panel(data: DashboardData, *, with_links: bool) -> Panel:
    return Panel(
        name="low-stock",
        title=_("Low stock"),
        table="low-stock",
        note=_with_language(data, _("Fewer than %(count)d units left, fewest first.") % {"count": LOW_STOCK_QUANTITY}),
        header=[_("Product"), _("Shop"), _("SKU"), _("Left")],
        text_columns=[1, 2],
        rows=[
            PanelRow(
                label=row.name,
                url=_product_url(row.product_id) if with_links else "",
                cells=[row.shop, row.sku or NO_VALUE, f"{row.left:,}"],
            )
            for row in data.low_stock_rows(MAX_ROWS)
        ],
        empty=_empty_text(data, _("Every product has %(count)d units or more.") % {"count": LOW_STOCK_QUANTITY}),
    )


def _ranked_rows(data: DashboardData, ranking: Sequence[Sales], describe: Callable[[Any], PanelRow]) -> list[PanelRow]:
    """Return the described rows with the revenue as their last cell, and a bar of its part of the largest one."""
    max_revenue = max((row.revenue for row in ranking), default=0)
    lines = [(describe(row), row.revenue) for row in ranking]
    return [
        replace(line, cells=[*line.cells, _money(data, revenue)], bar_width=_percentage(revenue, max_revenue))
        for line, revenue in lines
    ]


def _returning_customers_tile(data: DashboardData) -> Tile:
    name = _("Returning customers")
    if data.figures is None:
        return Tile(name=name, value=NO_VALUE, change=str(PENDING))
    return Tile(name=name, value=f"{data.figures.returning_customer_rate:.1%}", change=_("of all time"))


def _tile(name: str, current: int | None, previous: int | None, currency: str = "") -> Tile:
    if current is None:
        return Tile(name=name, value=NO_VALUE, change=str(PENDING))
    value = _format_value(current, currency)
    if previous is None:
        return Tile(name=name, value=value)
    if current and not previous:
        return Tile(name=name, value=value, change=_("none before"))
    change = _("no change") if current == previous else f"{current / previous - 1:+.1%}"
    return Tile(name=name, value=value, previous=_format_value(previous, currency), change=change)


def _chart_panel(data: DashboardData, measure: str, title: str, note: str, currency: str = "") -> Panel:
    columns, previous = data.over_time, data.previous_over_time
    has_values = any(getattr(sums, measure) for sums in [*columns, *previous])
    unit = data.columns.unit
    chart = column_chart(
        [axis_label(sums.date_range, unit) for sums in columns],
        _series(columns, measure, currency),
        _series(previous, measure, currency),
        upper=_open_series(columns, currency) if measure == "revenue" else None,
        currency=currency,
    )
    placed = [_("Placed")] if _has_placed(measure, columns) else []
    return Panel(
        name=measure,
        title=title,
        table="over-time",
        note=note,
        header=[
            _("Day") if unit == "day" else _("Days"),
            title,
            *placed,
            *([_("Previous period"), title, *placed] if previous else []),
        ],
        text_columns=[2 + len(placed)],
        rows=_chart_rows(columns, previous, measure, currency),
        empty="" if has_values else _("No data in this period. Choose a longer one above."),
        chart=chart if has_values else None,
        x_title=f"{UNITS[unit]}, {data.report.zone.key}",
        y_title=f"{title} ({currency})" if currency else title,
        legend=[
            (0, _("complete") if placed else _("this period")),
            *([(2, _("placed, not complete"))] if placed else []),
            *([(1, _("previous period, complete") if placed else _("previous period"))] if previous else []),
        ],
    )


def _chart_rows(
    columns: Sequence[ColumnSums], previous: Sequence[ColumnSums], measure: str, currency: str
) -> list[PanelRow]:
    """Return the numbers of a chart as a table, each column beside the same one of the previous period."""
    rows = []
    for index, sums in enumerate(columns):
        cells = _chart_cells(sums, measure, currency)
        if index < len(previous):
            earlier = previous[index]
            cells += [range_label(earlier.date_range), *_chart_cells(earlier, measure, currency)]
        elif previous:
            cells += [NO_VALUE] * (len(cells) + 1)
        rows.append(PanelRow(label=range_label(sums.date_range), cells=cells))
    return rows


def _chart_cells(sums: ColumnSums, measure: str, currency: str) -> list[str]:
    cells = [_format_value(getattr(sums, measure), currency)]
    if _has_placed(measure, [sums]):
        cells.append(_format_value(sums.placed_revenue or 0, currency))
    return cells


def _has_placed(measure: str, columns: Sequence[ColumnSums]) -> bool:
    return measure == "revenue" and any(sums.placed_revenue is not None for sums in columns)


def _open_series(columns: Sequence[ColumnSums], currency: str) -> ChartSeries:
    """Return the placed revenue that is not complete; the sales report may be older than the revenue."""
    values = [max((sums.placed_revenue or 0) - max(sums.revenue, 0), 0) for sums in columns]
    texts = [
        _("%(days)s: %(amount)s placed, not complete")
        % {"days": range_label(sums.date_range), "amount": format_money(value, currency)}
        for sums, value in zip(columns, values, strict=True)
    ]
    return ChartSeries(values=values, texts=texts)


def _revenue_note(data: DashboardData) -> str:
    note = _("Complete orders, by the day they were placed.")
    if data.figures is None:
        return note + " " + _("Placed orders that are not complete are being computed.")
    shaded = _("Shaded: placed orders that are not complete, cancelled ones included%(as_of)s.")
    return note + " " + shaded % {"as_of": _as_of(data)}


def _series(columns: Sequence[ColumnSums], measure: str, currency: str) -> ChartSeries:
    values = [getattr(sums, measure) for sums in columns]
    texts = [
        f"{range_label(sums.date_range)}: {_format_value(value, currency)}"
        for sums, value in zip(columns, values, strict=True)
    ]
    return ChartSeries(values=values, texts=texts)


def _as_of(data: DashboardData) -> str:
    """Return when the sales report was computed, for the end of a sentence."""
    if data.figures is None:
        return ""
    at = data.figures.as_of.astimezone(data.report.zone)
    return _(", as of %(day)s, %(time)s") % {"day": day_label(at.date()), "time": f"{at:%H:%M}"}


def _money(data: DashboardData, minor: int | None) -> str:
    return NO_VALUE if minor is None else format_money(minor, data.report.scope.currency)


def _report_empty_text(data: DashboardData, text: str) -> str:
    return _empty_text(data, text) if data.figures else str(PENDING)


def _with_language(data: DashboardData, note: str) -> str:
    """Return the note with the language of the rows, if there are several languages."""
    language = _("Language: %(code)s.") % {"code": data.language}
    return f"{note} {language}" if len(data.languages) > 1 else note


def _empty_text(data: DashboardData, text: str) -> str:
    """Return the text of an empty table; with several languages it may speak of the chosen one only."""
    return _("Nothing in this language.") if len(data.languages) > 1 else text


def _category_rows(counts: Sequence[CategoryCount | CategorySalesRow]) -> list[PanelRow]:
    max_count = max((row.count for row in counts), default=0)
    return [
        PanelRow(
            label=row.category_name,
            cells=[row.shop_name, f"{row.count:,}"],
            bar_width=_percentage(row.count, max_count),
        )
        for row in counts
    ]


def _format_value(number: int, currency: str) -> str:
    return format_money(number, currency) if currency else f"{number:,}"


def _percentage(number: int, maximum: int) -> str:
    return f"{max(number, 0) / maximum:.1%}" if maximum > 0 else "0%"


def _product_url(product_id: int) -> str:
    return reverse("admin:commerce_catalog_product_change", args=[product_id])
