"""Serializers of orders and refunds."""

from typing import Any

from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.addresses.validators import validate_address
from commerce.attachments.serializers import AttachmentRecordSerializer
from commerce.catalog.variation_serializers import VariationSerializer
from commerce.orders.models import Order, OrderLine, Refund
from commerce.orders.pricing import RequestedLine
from commerce.orders.services import DeliveryDetails
from commerce.shops.serializers import ShopSummarySerializer
from shared.accounts.models import User
from shared.api.lists.relations import RELATION_PATH, RelationsSerializer
from shared.api.money import MAX_MINOR_UNITS, MoneyField
from shared.api.query_params import MAX_INTEGER

MAX_LINES = 100
MAX_LINE_QUANTITY = 10_000
MAX_REASON_LENGTH = 2_000


class OrderCustomerSerializer(RelationsSerializer):
    """The customer of an order."""

    class Meta:
        model = User
        fields = ["id", "name", "email"]
        extra_kwargs = {
            "name": {"help_text": "Name of the customer."},
            "email": {"help_text": "E-mail address of the customer."},
        }


class StatusRecordSerializer(serializers.Serializer[Any]):
    """The status of an order as a record, which some clients draw a progress bar from."""

    id = serializers.IntegerField(help_text="Place of the status in a delivery, from 1.")
    name = serializers.CharField(help_text="Name of the status in English.")
    slug = serializers.CharField(help_text="The status, as in `order_status`.")
    serial = serializers.IntegerField(help_text="Place of the status in a delivery, from 1.")
    color = serializers.CharField(help_text="Color to show it in.")


STATUS_RECORDS = {
    status.value: {"id": place, "name": status.label, "slug": status.value, "serial": place, "color": color}
    for place, (status, color) in enumerate(
        [
            (Order.Status.PENDING, "#d97706"),
            (Order.Status.PROCESSING, "#2563eb"),
            (Order.Status.AT_LOCAL_FACILITY, "#7c3aed"),
            (Order.Status.OUT_FOR_DELIVERY, "#0891b2"),
            (Order.Status.COMPLETE, "#15803d"),
            (Order.Status.CANCELLED, "#525252"),
            (Order.Status.REFUNDED, "#a16207"),
            (Order.Status.FAILED, "#b91c1c"),
        ],
        start=1,
    )
}


class PivotSerializer(RelationsSerializer):
    """Quantity and price of a product in an order."""

    order_quantity = serializers.IntegerField(source="quantity", help_text="Number of pieces ordered.")
    unit_price = MoneyField(
        currency_source="order.currency", read_only=True, help_text="Price of one piece when it was ordered."
    )
    subtotal = MoneyField(
        currency_source="order.currency", read_only=True, help_text="Price of all pieces of this line."
    )
    variation_option_id = serializers.IntegerField(
        source="variation_id", allow_null=True, help_text="Id of the variation, or null."
    )

    class Meta:
        model = OrderLine
        fields = ["order_quantity", "unit_price", "subtotal", "variation_option_id"]


ORDERED_PRODUCT_FIELDS = ["id", "name", "slug", "image", "pivot"]


class OrderedProductSerializer(RelationsSerializer):
    """A product in an order: the product as the shop shows it now, and what was ordered in `pivot`."""

    id = serializers.IntegerField(source="product_id", help_text="Id of the product.")
    name = serializers.CharField(source="product.name", help_text="Name of the product.")
    slug = serializers.CharField(source="product.slug", help_text="Slug of the product.")
    image = AttachmentRecordSerializer(
        source="product.image", allow_null=True, help_text="Main image of the product, or null."
    )
    pivot = PivotSerializer(source="*", help_text="Ordered quantity and price.")
    variation_options = VariationSerializer(
        many=True,
        read_only=True,
        help_text="The ordered variation, or nothing. Only with `with=products.variation_options`.",
    )

    class Meta:
        model = OrderLine
        fields = [*ORDERED_PRODUCT_FIELDS, "variation_options"]
        relations = ["variation_options"]

    def to_representation(self, instance: OrderLine) -> dict[str, Any]:
        """Return the record, most of which is made once: a whole order has it again in the order of its shop."""
        options = self.fields.get("variation_options")
        record: dict[str, Any] | None = instance.__dict__.get("_record")
        if record is None:
            record = super().to_representation(instance)
            instance.__dict__["_record"] = {
                name: value for name, value in record.items() if name in ORDERED_PRODUCT_FIELDS
            }
        elif options:
            record = {**record, "variation_options": options.to_representation(options.get_attribute(instance))}
        return record


ORDER_FIELDS = [
    "id", "tracking_number", "customer_id", "customer_contact", "order_status", "currency", "amount", "sales_tax",
    "delivery_fee", "discount", "paid_total", "total", "refunded_total", "shop_id", "parent_id", "payment_gateway",
    "billing_address", "shipping_address", "products", "created_at", "updated_at", "shop",
]  # fmt: skip
ORDER_HELP_TEXTS = {
    "tracking_number": {"help_text": "Number that identifies the order to people."},
    "customer_id": {"help_text": "Id of the customer."},
    "customer_contact": {"help_text": "Telephone number or another contact of the customer."},
    "order_status": {"help_text": "Status; that of a whole order follows from the orders of its shops."},
    "currency": {"help_text": "Currency of all amounts, an ISO 4217 code."},
    "shop_id": {"help_text": "Id of the shop that delivers; null for a whole order."},
    "parent_id": {"help_text": "Id of the whole order; null if this is one."},
    "payment_gateway": {"help_text": "Payment method as the customer sent it."},
}


class BaseOrderSerializer(RelationsSerializer):
    """The fields that parent and child orders have in common. Amounts are in major units of `currency`."""

    amount = MoneyField(read_only=True, help_text="Sum of the products, without tax and delivery.")
    sales_tax = MoneyField(read_only=True, help_text="Sales tax; 0 for the order of one shop.")
    delivery_fee = MoneyField(read_only=True, help_text="Delivery fee; 0 for the order of one shop.")
    discount = MoneyField(read_only=True, help_text="Discount that is subtracted from the amount.")
    paid_total = MoneyField(read_only=True, help_text="What the customer pays, and at most gets back.")
    total = MoneyField(read_only=True, help_text="Amount plus tax and fee minus discount.")
    refunded_total = MoneyField(read_only=True, help_text="Sum of the approved refunds.")
    billing_address = serializers.DictField(read_only=True, help_text="Billing address as it was sent.")
    shipping_address = serializers.DictField(read_only=True, help_text="Shipping address as it was sent.")
    shop = ShopSummarySerializer(read_only=True, allow_null=True, help_text="Shop. Only with `with=shop`.")


class ChildOrderSerializer(BaseOrderSerializer):
    """The part of an order that one shop delivers."""

    products = OrderedProductSerializer(source="lines", many=True, read_only=True, help_text="Ordered products.")

    class Meta:
        model = Order
        fields = ORDER_FIELDS
        relations = ["shop"]
        extra_kwargs = ORDER_HELP_TEXTS


class OrderSerializer(BaseOrderSerializer):
    """An order: a whole order with a child for each shop, or one of these children."""

    products = serializers.SerializerMethodField(help_text="Ordered products; of a whole order those of all shops.")
    children = ChildOrderSerializer(
        many=True, read_only=True, help_text="Orders of the shops; empty unless this is a whole order."
    )
    customer = OrderCustomerSerializer(read_only=True, help_text="Customer.")
    customer_name = serializers.CharField(source="customer.name", read_only=True, help_text="Name of the customer.")
    status = serializers.SerializerMethodField(help_text="The status as a record. Only with `with=status`.")

    class Meta:
        model = Order
        fields = [*ORDER_FIELDS, "children", "customer", "customer_name", "status"]
        relations = ["shop", "status"]
        extra_kwargs = ORDER_HELP_TEXTS

    @extend_schema_field(StatusRecordSerializer)
    def get_status(self, order: Order) -> dict[str, Any]:
        return STATUS_RECORDS[order.order_status]

    @extend_schema_field(OrderedProductSerializer(many=True))
    def get_products(self, order: Order) -> Any:
        orders = order.children.all() if order.is_parent else [order]
        return [self._line_serializer.to_representation(line) for one in orders for line in one.lines.all()]

    @cached_property
    def _line_serializer(self) -> OrderedProductSerializer:
        """Return the serializer of all lines: to make one costs more than to read ten."""
        return OrderedProductSerializer(context={**self.context, RELATION_PATH: "products."})


class RequestedLineSerializer(serializers.Serializer[Any]):
    """A quantity of a product in a new order. Prices are ignored."""

    product_id = serializers.IntegerField(min_value=1, max_value=MAX_INTEGER, help_text="Id of a product.")
    order_quantity = serializers.IntegerField(
        min_value=1, max_value=MAX_LINE_QUANTITY, help_text="Number of pieces to order."
    )
    variation_option_id = serializers.IntegerField(
        min_value=1,
        max_value=MAX_INTEGER,
        required=False,
        allow_null=True,
        help_text="Id of a variation; required for a variable product.",
    )


def _validate_optional_address(value: dict[str, Any]) -> None:
    if value:
        validate_address(value)


class NewOrderSerializer(serializers.Serializer[Any]):
    """A new order. The server computes prices, tax and delivery fee."""

    products = RequestedLineSerializer(  # type: ignore[call-arg]
        many=True, allow_empty=False, max_length=MAX_LINES, help_text="Products to order."
    )
    customer_contact = serializers.CharField(
        max_length=64, required=False, allow_blank=True, help_text="Telephone number or another contact."
    )
    payment_gateway = serializers.RegexField(
        r"^[A-Za-z0-9_-]{1,64}\Z",
        required=False,
        help_text="Payment method, stored as it is. Default: CASH_ON_DELIVERY.",
    )
    billing_address = serializers.DictField(
        required=False, validators=[_validate_optional_address], help_text="Any JSON object of up to 16 KiB."
    )
    shipping_address = serializers.DictField(
        required=False, validators=[_validate_optional_address], help_text="Any JSON object of up to 16 KiB."
    )

    def lines(self) -> list[RequestedLine]:
        """Return the products of a valid body for `place_order`."""
        return [
            RequestedLine(
                product_id=line["product_id"],
                quantity=line["order_quantity"],
                variation_id=line.get("variation_option_id"),
            )
            for line in self.validated_data["products"]
        ]

    def delivery(self) -> DeliveryDetails:
        """Return all but the products of a valid body for `place_order`."""
        return DeliveryDetails(**{name: value for name, value in self.validated_data.items() if name != "products"})


class OrderStatusSerializer(serializers.Serializer[Any]):
    order_status = serializers.ChoiceField(
        choices=Order.Status.choices,
        help_text="New status: forward in the delivery, `cancelled` or `failed`. `refunded` is set by refunds.",
    )


class RefundedOrderSerializer(serializers.ModelSerializer[Order]):
    """The order of a refund."""

    total = MoneyField(read_only=True, help_text="What the customer pays for the order.")
    refunded_total = MoneyField(read_only=True, help_text="Sum of the approved refunds.")

    class Meta:
        model = Order
        fields = ["id", "tracking_number", "order_status", "currency", "total", "refunded_total"]
        extra_kwargs = ORDER_HELP_TEXTS


class RefundSerializer(RelationsSerializer):
    """A refund that a customer requested."""

    amount = MoneyField(currency_source="order.currency", read_only=True, help_text="Amount in the order's currency.")
    order = RefundedOrderSerializer(read_only=True, help_text="Order. Only with `with=order`.")
    customer = OrderCustomerSerializer(read_only=True, help_text="Customer. Only with `with=customer`.")
    shop = ShopSummarySerializer(read_only=True, allow_null=True, help_text="Shop. Only with `with=shop`.")

    class Meta:
        model = Refund
        fields = [
            "id", "order_id", "shop_id", "amount", "status", "reason", "created_at", "updated_at", "order", "shop",
            "customer",
        ]  # fmt: skip
        relations = ["order", "shop", "customer"]
        extra_kwargs = {
            "order_id": {"help_text": "Id of the order."},
            "shop_id": {"help_text": "Id of the shop that decides; null if the platform does."},
            "status": {"help_text": "Status of the request."},
            "reason": {"help_text": "Reason that the customer gave."},
        }


class RefundedOrderIdSerializer(serializers.Serializer[Any]):
    order_id = serializers.IntegerField(min_value=1, max_value=MAX_INTEGER, help_text="Id of an order of yours.")


class NewRefundSerializer(RefundedOrderIdSerializer):
    """A new refund of the order that is the serializer's instance."""

    amount = MoneyField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MAX_MINOR_UNITS,
        help_text="Amount in major units of the order's currency. Default: all that can still be refunded.",
    )
    currency = serializers.CharField(
        required=False, max_length=3, help_text="Must be the order's currency if it is sent."
    )
    reason = serializers.CharField(
        max_length=MAX_REASON_LENGTH, required=False, allow_blank=True, help_text="Reason, for those who decide."
    )

    def validate_currency(self, currency: str) -> str:
        if currency != self.instance.currency:  # type: ignore[union-attr]
            raise serializers.ValidationError(f"This order is in {self.instance.currency}.")  # type: ignore[union-attr]
        return currency


class RefundDecisionSerializer(serializers.Serializer[Any]):
    status = serializers.ChoiceField(
        choices=[Refund.Status.APPROVED, Refund.Status.REJECTED], help_text="Decision on the refund."
    )
