"""The figures of a sales report in one currency, with the names that products, customers and others have now."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime

from commerce.analytics.models import SalesReport
from commerce.analytics.reports.date_ranges import DateRange
from commerce.analytics.reports.sales_computation import MAX_ROWS, DayData, RankingData
from commerce.attributes.models import AttributeValue
from commerce.catalog.models import Product
from commerce.orders.models import Order
from shared.accounts.models import User
from shared.accounts.personal_data.erasure import is_erased

DELETED_CUSTOMER = "Deleted customer"


@dataclass(frozen=True, kw_only=True)
class CustomerSales:
    """A customer with the number of their orders in any status, and the revenue of the complete ones."""

    customer_id: int
    name: str
    orders: int
    revenue: int


@dataclass(frozen=True, kw_only=True)
class ProductSales:
    """A product, which may be deleted now, with its units sold and their revenue."""

    product_id: int
    name: str
    slug: str
    shop: str
    units: int
    revenue: int


@dataclass(frozen=True, kw_only=True)
class AttributeSales:
    """The units sold of variations that have a value of an attribute, and their revenue."""

    attribute_id: int
    attribute: str
    value_id: int
    value: str
    shop: str
    units: int
    revenue: int


class SalesFigures:
    """The figures of a computed report in a currency; money is in its minor units."""

    def __init__(self, report: SalesReport, currency: str) -> None:
        self.report, self.currency = report, currency

    @property
    def as_of(self) -> datetime:
        """Return when the report was computed."""
        at: datetime = self.report.computed_at  # type: ignore[assignment]  # only a computed report has figures
        return at

    @property
    def returning_customer_rate(self) -> float:
        """Return the part of the customers who have ordered more than once, in any currency; 0 without customers."""
        customers = self.report.customers
        return round(customers["returning"] / customers["buyers"], 4) if customers["buyers"] else 0.0

    def placed_by_day(self) -> Mapping[date, int]:
        """Return the placed revenue of each day that has orders."""
        return {date.fromisoformat(day): sum(data["placed"].values()) for day, data in self._days.items()}

    def placed_by_status(self, date_range: DateRange | None = None) -> Mapping[str, int]:
        """Return the placed revenue of these days by the status that the orders have now."""
        placed: Counter[str] = Counter(dict.fromkeys(Order.Status.values, 0))
        for data in self._days_within(date_range):
            placed.update(data["placed"])
        return placed

    def placed_revenue(self, date_range: DateRange | None = None) -> int:
        return sum(self.placed_by_status(date_range).values())

    def average_order_value(self, date_range: DateRange | None = None) -> int:
        """Return the revenue of a complete order of the shops; 0 without one."""
        days = self._days_within(date_range)
        return average(sum(data["revenue"] for data in days), sum(data["sold"] for data in days))

    def top_customers(self, limit: int) -> list[CustomerSales]:
        """Return the customers with the most revenue."""
        rows = self.report.customers["top"].get(self.currency, [])[:limit]
        users = User.objects.in_bulk([row[0] for row in rows])
        return [
            CustomerSales(customer_id=pk, name=_customer_name(users.get(pk)), orders=orders, revenue=revenue)
            for pk, orders, revenue in rows
        ]

    def top_products(self, language: str, limit: int) -> list[ProductSales]:
        """Return the products of a language with the most revenue."""
        rows = self._ranking(self.report.products, language)[:limit]
        products = Product.objects.select_related("shop").in_bulk([row[0] for row in rows])
        return [
            ProductSales(
                product_id=pk,
                name=products[pk].name,
                slug=products[pk].slug,
                shop=products[pk].shop.name,
                units=units,
                revenue=revenue,
            )
            for pk, units, revenue in rows
            if pk in products
        ]

    def revenue_by_category(self, language: str) -> Callable[[int, int], int | None]:
        """Return a function from a category and a shop to the revenue of the shop's units sold in it.

        It returns None where more categories have sold than the report ranks.
        """
        rows = self._ranking(self.report.categories, language)
        revenue = {(category_id, shop_id): revenue for category_id, shop_id, _, revenue in rows}
        missing = 0 if len(rows) < MAX_ROWS else None
        return lambda category_id, shop_id: revenue.get((category_id, shop_id), missing)

    def by_attribute(self, language: str, limit: int) -> list[AttributeSales]:
        """Return the values of attributes of a language with the most revenue."""
        rows = self._ranking(self.report.attributes, language)[:limit]
        values = AttributeValue.objects.select_related("attribute__shop").in_bulk([row[0] for row in rows])
        return [
            AttributeSales(
                attribute_id=values[pk].attribute_id,
                attribute=values[pk].attribute.name,
                value_id=pk,
                value=values[pk].value,
                shop=values[pk].attribute.shop.name,
                units=units,
                revenue=revenue,
            )
            for pk, units, revenue in rows
            if pk in values
        ]

    @property
    def _days(self) -> Mapping[str, DayData]:
        days: Mapping[str, DayData] = self.report.days.get(self.currency, {})
        return days

    def _days_within(self, date_range: DateRange | None) -> list[DayData]:
        if date_range is None:
            return list(self._days.values())
        first, last = date_range.first.isoformat(), date_range.last.isoformat()
        return [data for day, data in self._days.items() if first <= day <= last]

    def _ranking(self, ranking: RankingData, language: str) -> list[list[int]]:
        return ranking.get(self.currency, {}).get(language, [])


def average(total: int, count: int) -> int:
    """Return the average in whole minor units, rounded half up; 0 for a count of 0."""
    return (2 * total + count) // (2 * count) if count else 0


def _customer_name(user: User | None) -> str:
    return DELETED_CUSTOMER if user is None or is_erased(user) else user.name
