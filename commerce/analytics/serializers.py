"""Serializers of analytics. Money is a number of major units."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from commerce.analytics.reports.date_ranges import DateRange
from commerce.analytics.reports.products import CategoryCount, RatedProduct
from commerce.analytics.reports.report import Report
from commerce.analytics.reports.results import SalesTotals
from commerce.analytics.reports.sales_figures import DELETED_CUSTOMER
from commerce.attachments.serializers import AttachmentRecordSerializer
from commerce.catalog.models import Product
from commerce.orders.models import Order
from shared.api.money import MoneyField, to_number

Status = Order.Status
STATUS_FIELDS = {
    Status.PENDING: "pending",
    Status.PROCESSING: "processing",
    Status.COMPLETE: "complete",
    Status.CANCELLED: "cancelled",
    Status.REFUNDED: "refunded",
    Status.FAILED: "failed",
    Status.AT_LOCAL_FACILITY: "localFacility",
    Status.OUT_FOR_DELIVERY: "outForDelivery",
}
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


AS_OF = "When the sales report was computed; null while `pending`."
PENDING = "Whether the first sales report is still being computed. Ask again in a few seconds."


class MonthSerializer(serializers.Serializer[Any]):
    """Revenue of one month of the current year."""

    month = serializers.ChoiceField(choices=MONTHS, help_text="English name of the month.")
    total = serializers.FloatField(help_text="Revenue of the month, in major units.")


class StatusCountsSerializer(serializers.Serializer[Any]):
    """Number of orders by status."""

    def get_fields(self) -> dict[str, Any]:
        return {
            name: serializers.IntegerField(min_value=0, help_text=f"Number of orders with the status {status.value}.")
            for status, name in STATUS_FIELDS.items()
        }


class SalesTotalsSerializer(serializers.Serializer[Any]):
    totalRevenue = serializers.FloatField(
        help_text="Revenue of complete orders, in major units. A shop's revenue is without delivery fees and tax."
    )
    totalRefunds = serializers.FloatField(help_text="Sum of approved refunds, in major units.")
    totalOrders = serializers.IntegerField(min_value=0, help_text="Number of orders in any status.")
    newCustomers = serializers.IntegerField(
        min_value=0,
        help_text="Number of customers who joined the platform or, for shops, joined it and ordered there. Without "
        "`from` and `to` those of the last 30 days.",
    )
    averageOrderValue = serializers.FloatField(
        allow_null=True,
        help_text="Revenue divided by the number of complete orders, in major units; 0 without one. Orders of shops "
        "count once they are revenue, as of `asOf`; null while `pending`.",
    )
    placedRevenue = serializers.FloatField(
        allow_null=True,
        help_text="Value of the orders in every status, by the day they were placed, as of `asOf`, in major units: "
        "those that are pending, cancelled or refunded count as well. Null while `pending`.",
    )


def _date_fields(*, required: bool) -> dict[str, Any]:
    return {
        "from": serializers.DateField(required=required, help_text="First day of the totals."),
        "to": serializers.DateField(required=required, help_text="Last day of the totals."),
    }


class PreviousPeriodSerializer(SalesTotalsSerializer):
    """Totals of the days before `from`."""

    def get_fields(self) -> dict[str, Any]:
        return _date_fields(required=True) | super().get_fields()


class OverviewSerializer(SalesTotalsSerializer):
    """Sales of the platform or of shops. `from`, `to` and `previous` are present if they were requested."""

    totalShops = serializers.IntegerField(min_value=0, help_text="Number of shops.")
    totalVendors = serializers.IntegerField(
        min_value=0, help_text="Number of shop owners; 0 unless you read the whole platform."
    )
    todaysRevenue = serializers.FloatField(help_text="Revenue of today, in major units.")
    totalYearSaleByMonth = MonthSerializer(many=True, help_text="Revenue of each month of the current year.")
    todayTotalOrderByStatus = StatusCountsSerializer(help_text="Orders of today by status.")
    weeklyTotalOrderByStatus = StatusCountsSerializer(help_text="Orders of the last 7 days by status.")
    monthlyTotalOrderByStatus = StatusCountsSerializer(help_text="Orders of the last 30 days by status.")
    yearlyTotalOrderByStatus = StatusCountsSerializer(help_text="Orders of the last 365 days by status.")
    currency = serializers.CharField(
        min_length=3, max_length=3, help_text="ISO 4217 code of the currency of all amounts and of all orders counted."
    )
    currencies = serializers.ListField(
        child=serializers.CharField(min_length=3, max_length=3), help_text="Other currencies in which there are orders."
    )
    returningCustomerRate = serializers.FloatField(
        min_value=0,
        max_value=1,
        allow_null=True,
        help_text="Part of the customers who have ordered more than once, of all time and in any status and currency, "
        "as of `asOf`; 0 without customers. Null while `pending`.",
    )
    asOf = serializers.DateTimeField(allow_null=True, help_text=AS_OF)
    pending = serializers.BooleanField(help_text=PENDING)
    previous = PreviousPeriodSerializer(
        required=False, help_text="Totals of as many days before `from`, with `compare=previous`."
    )

    def get_fields(self) -> dict[str, Any]:
        return _date_fields(required=False) | super().get_fields()


def overview_body(report: Report, *, date_range: DateRange | None = None, compare: bool = False) -> dict[str, Any]:
    """Return the body of GET /analytics; with `compare` also the totals of as many days before `date_range`."""
    currency, figures = report.scope.currency, report.figures
    today, week, month, year = report.recent_totals()
    body = {
        **_totals_body(report.totals(date_range), currency),
        "totalShops": report.shops.count(),
        "totalVendors": report.shops.values("owner").distinct().count() if report.scope.is_platform else 0,
        "todaysRevenue": to_number(today.revenue, currency),
        "totalYearSaleByMonth": [
            {"month": name, "total": to_number(point.revenue, currency)}
            for name, point in zip(MONTHS, report.months_of_this_year(), strict=True)
        ],
        "todayTotalOrderByStatus": _status_counts(today.by_status),
        "weeklyTotalOrderByStatus": _status_counts(week.by_status),
        "monthlyTotalOrderByStatus": _status_counts(month.by_status),
        "yearlyTotalOrderByStatus": _status_counts(year.by_status),
        "currency": currency,
        "currencies": report.other_currencies(),
        "returningCustomerRate": figures.returning_customer_rate if figures else None,
        "asOf": serializers.DateTimeField().to_representation(figures.as_of) if figures else None,
        "pending": figures is None,
    }
    if date_range:
        body |= _dates(date_range)
    if date_range and compare:
        previous = date_range.previous()
        body["previous"] = _dates(previous) | _totals_body(report.totals(previous), currency)
    return body


def _dates(date_range: DateRange) -> dict[str, str]:
    return {"from": date_range.first.isoformat(), "to": date_range.last.isoformat()}


def _totals_body(totals: SalesTotals, currency: str) -> dict[str, Any]:
    return {
        "totalRevenue": to_number(totals.revenue, currency),
        "totalRefunds": to_number(totals.refunds, currency),
        "totalOrders": totals.orders,
        "newCustomers": totals.new_customers,
        "averageOrderValue": _number(totals.average_order_value, currency),
        "placedRevenue": _number(totals.placed_revenue, currency),
    }


def _number(minor: int | None, currency: str) -> float | None:
    return None if minor is None else to_number(minor, currency)


def _status_counts(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts[status] for status, name in STATUS_FIELDS.items()}


class CategorySerializer(serializers.Serializer[Any]):
    category_id = serializers.IntegerField(help_text="Id of the category.")
    category_name = serializers.CharField(help_text="Name of the category.")
    shop_name = serializers.CharField(help_text="Name of the shop.")


@extend_schema_serializer(component_name="CategoryProductCount")
class CategoryProductsSerializer(CategorySerializer):
    product_count = serializers.IntegerField(
        source="count", min_value=0, help_text="Number of the shop's products in the category."
    )


@extend_schema_serializer(component_name="CategorySales")
class CategorySalesSerializer(CategorySerializer):
    """Units and revenue of a category; the context has `revenue`, a function of category and shop, and `currency`."""

    total_sales = serializers.IntegerField(source="count", help_text="Units that the shop sold in the category.")
    total_revenue = serializers.SerializerMethodField(
        help_text="Revenue of these units in `currency` or the platform's currency, in major units, as of the latest "
        "sales report. Null while its first is pending, and with `search`."
    )

    def get_total_revenue(self, row: CategoryCount) -> float | None:
        find = self.context["revenue"]
        return _number(find(row.category_id, row.shop_id), self.context["currency"]) if find else None


def _price(name: str, help_text: str, *, allow_null: bool = True) -> MoneyField:
    return MoneyField(
        source=f"product.{name}",
        currency_source="product.currency",
        read_only=True,
        allow_null=allow_null,
        help_text=help_text,
    )


class TopRatedSerializer(serializers.Serializer[Any]):
    """A product with its rating."""

    id = serializers.IntegerField(source="product.pk", help_text="Id of the product.")
    name = serializers.CharField(source="product.name", help_text="Name of the product.")
    slug = serializers.CharField(source="product.slug", help_text="Slug of the product.")
    description = serializers.CharField(source="product.description", help_text="Description of the product.")
    type_slug = serializers.CharField(source="product.type.slug", help_text="Slug of the product's type.")
    product_type = serializers.ChoiceField(
        source="product.product_type",
        choices=Product.Kind.choices,
        help_text="`simple`, or `variable` for a product with variations.",
    )
    price = _price("price", "Regular price of a simple product, in major units.", allow_null=False)
    sale_price = _price("sale_price", "Reduced price, in major units; null without one.")
    min_price = _price("min_price", "Lowest price of the product or its variations, in major units.")
    max_price = _price("max_price", "Highest price of the product or its variations, in major units.")
    image = AttachmentRecordSerializer(
        source="product.image", read_only=True, allow_null=True, help_text="Image of the product; null without one."
    )
    actual_rating = serializers.SerializerMethodField(help_text="Average of the stars, rounded to two decimal places.")
    rating_count = serializers.IntegerField(source="reviews", min_value=1, help_text="Number of visible reviews.")
    total_rating = serializers.IntegerField(source="stars", min_value=1, help_text="Sum of the stars.")

    def get_actual_rating(self, rated: RatedProduct) -> float:
        return round(rated.average, 2)


class RevenueField(serializers.FloatField):
    """Revenue in the currency of the context, as a number of major units."""

    def to_representation(self, value: Any) -> Any:
        return to_number(value, self.context["currency"])


class CustomerSalesSerializer(serializers.Serializer[Any]):
    customer_id = serializers.IntegerField(help_text="Id of the customer.")
    customer_name = serializers.CharField(
        source="name", help_text=f"Name of the customer; `{DELETED_CUSTOMER}` after the account was erased."
    )
    total_orders = serializers.IntegerField(
        source="orders", min_value=0, help_text="Number of the customer's orders in any status."
    )
    total_revenue = RevenueField(source="revenue", help_text="Revenue of the complete ones, in major units.")


class ProductSalesSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="product_id", help_text="Id of the product, which may be deleted now.")
    name = serializers.CharField(help_text="Name of the product.")
    slug = serializers.CharField(help_text="Slug of the product.")
    shop_name = serializers.CharField(source="shop", help_text="Name of the shop.")
    total_sales = serializers.IntegerField(source="units", help_text="Units sold in complete orders.")
    total_revenue = RevenueField(source="revenue", help_text="Revenue of these units, in major units.")


class AttributeSalesSerializer(serializers.Serializer[Any]):
    attribute_id = serializers.IntegerField(help_text="Id of the attribute.")
    attribute_name = serializers.CharField(source="attribute", help_text="Name of the attribute.")
    value_id = serializers.IntegerField(help_text="Id of the value.")
    value = serializers.CharField(help_text="The value.")
    shop_name = serializers.CharField(source="shop", help_text="Name of the attribute's shop.")
    total_sales = serializers.IntegerField(
        source="units", help_text="Units sold, in complete orders, of variations that have the value."
    )
    total_revenue = RevenueField(source="revenue", help_text="Revenue of these units, in major units.")


class RankingSerializer(serializers.Serializer[Any]):
    currency = serializers.CharField(min_length=3, max_length=3, help_text="ISO 4217 code of the currency.")
    as_of = serializers.DateTimeField(allow_null=True, help_text=AS_OF)
    pending = serializers.BooleanField(help_text=PENDING)


class TopCustomersSerializer(RankingSerializer):
    """The customers with the most revenue."""

    data: Any = CustomerSalesSerializer(many=True, allow_null=True, help_text="The customers; null while `pending`.")


class TopProductsSerializer(RankingSerializer):
    """The products with the most revenue."""

    data: Any = ProductSalesSerializer(many=True, allow_null=True, help_text="The products; null while `pending`.")


class AttributeSalesListSerializer(RankingSerializer):
    """The values of attributes with the most revenue."""

    data: Any = AttributeSalesSerializer(many=True, allow_null=True, help_text="The values; null while `pending`.")
