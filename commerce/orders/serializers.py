"""The wire shapes of orders and refunds."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.addresses.validators import validate_address
from commerce.attachments.records import AttachmentRecordSerializer
from commerce.orders.models import Order, OrderLine, Refund
from commerce.orders.pricing import WantedLine
from commerce.orders.services import Delivery
from commerce.shops.records import ShopNameSerializer
from shared.accounts.models import User
from shared.api.money import LARGEST_MINOR_UNITS, MoneyField
from shared.api.query import LARGEST_INTEGER
from shared.api.relations import RelationsSerializer

MOST_LINES = 100
LARGEST_QUANTITY = 10_000
LONGEST_REASON = 2_000


class OrderCustomerSerializer(serializers.ModelSerializer[User]):
    class Meta:
        model = User
        fields = ["id", "name", "email"]


class PivotSerializer(serializers.ModelSerializer[OrderLine]):
    order_quantity = serializers.IntegerField(source="quantity")
    unit_price = MoneyField(currency_source="order.currency", read_only=True)
    subtotal = MoneyField(currency_source="order.currency", read_only=True)
    variation_option_id = serializers.IntegerField(source="variation_id", allow_null=True)

    class Meta:
        model = OrderLine
        fields = ["order_quantity", "unit_price", "subtotal", "variation_option_id"]


class OrderedProductSerializer(serializers.ModelSerializer[OrderLine]):
    """A product as it was bought: what it is in the shop, and under `pivot` how many of it at which price."""

    id = serializers.IntegerField(source="product_id")
    name = serializers.CharField(source="product.name")
    slug = serializers.CharField(source="product.slug")
    image = AttachmentRecordSerializer(source="product.image", allow_null=True)
    pivot = PivotSerializer(source="*")

    class Meta:
        model = OrderLine
        fields = ["id", "name", "slug", "image", "pivot"]


ORDER_FIELDS = [
    "id", "tracking_number", "customer_id", "customer_contact", "order_status", "currency", "amount", "sales_tax",
    "delivery_fee", "discount", "paid_total", "total", "refunded_total", "shop_id", "parent_id", "payment_gateway",
    "billing_address", "shipping_address", "products", "created_at", "updated_at", "shop",
]  # fmt: skip


class OrderRecordSerializer(RelationsSerializer):
    """What an order and a shop's part of one have alike. Money is in major units of the order's currency."""

    amount = MoneyField(read_only=True)
    sales_tax = MoneyField(read_only=True)
    delivery_fee = MoneyField(read_only=True)
    discount = MoneyField(read_only=True)
    paid_total = MoneyField(read_only=True)
    total = MoneyField(read_only=True)
    refunded_total = MoneyField(read_only=True)
    billing_address = serializers.DictField(read_only=True)
    shipping_address = serializers.DictField(read_only=True)
    shop = ShopNameSerializer(read_only=True, allow_null=True)


class OrderPartSerializer(OrderRecordSerializer):
    """A shop's part of an order."""

    products = OrderedProductSerializer(source="lines", many=True, read_only=True)

    class Meta:
        model = Order
        fields = ORDER_FIELDS
        relations = ["shop"]


class OrderSerializer(OrderRecordSerializer):
    """An order. A parent's `products` are those of all its shops, and `children` the parts; a part has no children."""

    products = serializers.SerializerMethodField()
    children = OrderPartSerializer(many=True, read_only=True)
    customer = OrderCustomerSerializer(read_only=True)

    class Meta:
        model = Order
        fields = [*ORDER_FIELDS, "children", "customer"]
        relations = ["shop", "customer"]

    @extend_schema_field(OrderedProductSerializer(many=True))
    def get_products(self, order: Order) -> Any:
        parts = order.children.all() if order.is_parent else [order]
        lines = [line for part in parts for line in part.lines.all()]
        return OrderedProductSerializer(lines, many=True, context=self.context).data


class WantedLineSerializer(serializers.Serializer[Any]):
    """So many of a product. Prices that are sent along are not looked at."""

    product_id = serializers.IntegerField(min_value=1, max_value=LARGEST_INTEGER)
    order_quantity = serializers.IntegerField(min_value=1, max_value=LARGEST_QUANTITY)
    variation_option_id = serializers.IntegerField(
        min_value=1, max_value=LARGEST_INTEGER, required=False, allow_null=True
    )


def _validate_sent_address(value: dict[str, Any]) -> None:
    if value:  # an order may do without
        validate_address(value)


class NewOrderSerializer(serializers.Serializer[Any]):
    """What a customer sends. Everything that costs is worked out by the server."""

    products = WantedLineSerializer(many=True, allow_empty=False, max_length=MOST_LINES)  # type: ignore[call-arg]
    customer_contact = serializers.CharField(max_length=64, required=False, allow_blank=True, help_text="A telephone.")
    payment_gateway = serializers.RegexField(
        r"^[A-Za-z0-9_-]{1,64}\Z", required=False, help_text="How it is paid; kept as it is. Default: CASH_ON_DELIVERY."
    )
    billing_address = serializers.DictField(required=False, validators=[_validate_sent_address])
    shipping_address = serializers.DictField(required=False, validators=[_validate_sent_address])

    def lines(self) -> list[WantedLine]:
        return [
            WantedLine(
                product_id=line["product_id"],
                quantity=line["order_quantity"],
                variation_id=line.get("variation_option_id"),
            )
            for line in self.validated_data["products"]
        ]

    def delivery(self) -> Delivery:
        return Delivery(**{name: value for name, value in self.validated_data.items() if name != "products"})


class OrderStatusSerializer(serializers.Serializer[Any]):
    order_status = serializers.ChoiceField(choices=Order.Status.choices)


class RefundedOrderSerializer(serializers.ModelSerializer[Order]):
    total = MoneyField(read_only=True)
    refunded_total = MoneyField(read_only=True)

    class Meta:
        model = Order
        fields = ["id", "tracking_number", "order_status", "currency", "total", "refunded_total"]


class RefundSerializer(RelationsSerializer):
    """Money asked back. `shop_id` is null where it is asked of the platform, for a whole order."""

    amount = MoneyField(currency_source="order.currency", read_only=True)
    order = RefundedOrderSerializer(read_only=True)
    shop = ShopNameSerializer(read_only=True, allow_null=True)

    class Meta:
        model = Refund
        fields = [
            "id",
            "order_id",
            "shop_id",
            "amount",
            "status",
            "reason",
            "created_at",
            "updated_at",
            "order",
            "shop",
        ]
        relations = ["order", "shop"]


class RefundedOrderIdSerializer(serializers.Serializer[Any]):
    order_id = serializers.IntegerField(min_value=1, max_value=LARGEST_INTEGER)


class NewRefundSerializer(RefundedOrderIdSerializer):
    """What a customer asks back of an order, which is the serializer's instance; without `amount`, all that is left."""

    amount = MoneyField(required=False, allow_null=True, min_value=1, max_value=LARGEST_MINOR_UNITS)
    currency = serializers.CharField(required=False, help_text="The order's; nothing else is taken.")
    reason = serializers.CharField(max_length=LONGEST_REASON, required=False, allow_blank=True)

    def validate_currency(self, currency: str) -> str:
        if currency != self.instance.currency:  # type: ignore[union-attr]
            raise serializers.ValidationError(f"This order is in {self.instance.currency}.")  # type: ignore[union-attr]
        return currency


class RefundDecisionSerializer(serializers.Serializer[Any]):
    status = serializers.ChoiceField(choices=[Refund.Status.APPROVED, Refund.Status.REJECTED])
