"""The wire shapes of the figures: money as numbers of major units."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from commerce.analytics.goods import RatedProduct
from commerce.analytics.reports import Overview, Sums
from commerce.attachments.records import AttachmentRecordSerializer
from commerce.catalog.models import Product
from commerce.orders.models import Order
from shared.api.money import MoneyField, to_number

S = Order.Status
STATUS_NAMES = {
    S.PENDING: "pending",
    S.PROCESSING: "processing",
    S.COMPLETE: "complete",
    S.CANCELLED: "cancelled",
    S.REFUNDED: "refunded",
    S.FAILED: "failed",
    S.AT_LOCAL_FACILITY: "localFacility",
    S.OUT_FOR_DELIVERY: "outForDelivery",
}
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


class MonthSerializer(serializers.Serializer[Any]):
    month = serializers.CharField()
    total = serializers.FloatField()


class StatusCountsSerializer(serializers.Serializer[Any]):
    """How many orders are in each state."""

    def get_fields(self) -> dict[str, Any]:
        return {name: serializers.IntegerField() for name in STATUS_NAMES.values()}


class SumsSerializer(serializers.Serializer[Any]):
    totalRevenue = serializers.FloatField()
    totalRefunds = serializers.FloatField()
    totalOrders = serializers.IntegerField()
    newCustomers = serializers.IntegerField()


class PeriodSerializer(SumsSerializer):
    """The sums of some days."""

    def get_fields(self) -> dict[str, Any]:
        days = {"from": serializers.DateField(), "to": serializers.DateField()}
        return days | super().get_fields()


class OverviewSerializer(SumsSerializer):
    """The figures of the platform, or of somebody's shops. `from`, `to` and `previous` are there when asked for."""

    totalShops = serializers.IntegerField()
    totalVendors = serializers.IntegerField()
    todaysRevenue = serializers.FloatField()
    totalYearSaleByMonth = MonthSerializer(many=True)
    todayTotalOrderByStatus = StatusCountsSerializer()
    weeklyTotalOrderByStatus = StatusCountsSerializer()
    monthlyTotalOrderByStatus = StatusCountsSerializer()
    yearlyTotalOrderByStatus = StatusCountsSerializer()
    currency = serializers.CharField()
    currencies = serializers.ListField(child=serializers.CharField(), help_text="Others that there are orders in.")
    previous = PeriodSerializer(required=False)

    def get_fields(self) -> dict[str, Any]:
        days = {"from": serializers.DateField(required=False), "to": serializers.DateField(required=False)}
        return days | super().get_fields()


def overview_body(overview: Overview) -> dict[str, Any]:
    """The body of GET /analytics."""
    currency = overview.currency
    body = {
        **_sums(overview.totals, currency),
        "totalShops": overview.shops,
        "totalVendors": overview.vendors,
        "todaysRevenue": to_number(overview.today.revenue, currency),
        "totalYearSaleByMonth": [
            {"month": name, "total": to_number(revenue, currency)}
            for name, revenue in zip(MONTHS, overview.revenue_by_month, strict=True)
        ],
        "todayTotalOrderByStatus": _statuses(overview.today.by_status),
        "weeklyTotalOrderByStatus": _statuses(overview.week_by_status),
        "monthlyTotalOrderByStatus": _statuses(overview.month_by_status),
        "yearlyTotalOrderByStatus": _statuses(overview.year_by_status),
        "currency": currency,
        "currencies": list(overview.currencies),
    }
    if overview.span:
        body |= {"from": overview.span.first.isoformat(), "to": overview.span.last.isoformat()}
    if overview.previous and overview.previous_span:
        days = {"from": overview.previous_span.first.isoformat(), "to": overview.previous_span.last.isoformat()}
        body["previous"] = days | _sums(overview.previous, currency)
    return body


def _sums(sums: Sums, currency: str) -> dict[str, Any]:
    return {
        "totalRevenue": to_number(sums.revenue, currency),
        "totalRefunds": to_number(sums.refunds, currency),
        "totalOrders": sums.orders,
        "newCustomers": sums.new_customers,
    }


def _statuses(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts[status] for status, name in STATUS_NAMES.items()}


class CategorySerializer(serializers.Serializer[Any]):
    category_id = serializers.IntegerField()
    category_name = serializers.CharField()
    shop_name = serializers.CharField()


@extend_schema_serializer(component_name="CategoryProductCount")
class CategoryProductsSerializer(CategorySerializer):
    product_count = serializers.IntegerField(source="count")


@extend_schema_serializer(component_name="CategorySales")
class CategorySalesSerializer(CategorySerializer):
    total_sales = serializers.IntegerField(source="count", help_text="Pieces.")


class TopRatedSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="product.pk")
    name = serializers.CharField(source="product.name")
    slug = serializers.CharField(source="product.slug")
    description = serializers.CharField(source="product.description")
    type_slug = serializers.CharField(source="product.type.slug")
    product_type = serializers.ChoiceField(source="product.product_type", choices=Product.Kind.choices)
    price = MoneyField(source="product.price", currency_source="product.currency", read_only=True)
    sale_price = MoneyField(
        source="product.sale_price", currency_source="product.currency", read_only=True, allow_null=True
    )
    min_price = MoneyField(
        source="product.min_price", currency_source="product.currency", read_only=True, allow_null=True
    )
    max_price = MoneyField(
        source="product.max_price", currency_source="product.currency", read_only=True, allow_null=True
    )
    image = AttachmentRecordSerializer(source="product.image", read_only=True, allow_null=True)
    actual_rating = serializers.SerializerMethodField(help_text="The average of the stars, of two decimal places.")
    rating_count = serializers.IntegerField(source="reviews")
    total_rating = serializers.IntegerField(source="stars", help_text="The sum of the stars.")

    def get_actual_rating(self, rated: RatedProduct) -> float:
        return round(rated.average, 2)
