"""Models of orders, order lines and refunds.

An order is a tree of two levels: the parent is what the customer pays, and it has a child for each shop that delivers.
Order lines belong to the children. Money is in minor units of the order's currency.
"""

import secrets
from typing import Self

from django.db import models
from django.db.models import Count, F, OuterRef, Prefetch, Q, Subquery
from django.db.models.functions import Cast, Coalesce, Length

from commerce.catalog.models import Product, Variation
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role

BYTES_PER_ORDER, BYTES_PER_LINE = 1500, 450  # of a response


def new_tracking_number() -> str:
    """Return a random tracking number; migrations refer to this function."""
    return format_tracking_number(secrets.randbits(76))


def format_tracking_number(bits: int) -> str:
    """Return 76 bits as a tracking number. Its leading letter sets it apart from an id."""
    return f"S{bits:019X}"


class OrderQuerySet(models.QuerySet["Order"]):
    def for_user(self, user: User) -> Self:
        """Return the user's own orders and those of the shops they own or work in, or all for a super admin."""
        if user.role == Role.SUPER_ADMIN:
            return self.all()
        return self.filter(Q(customer=user) | Q(shop__in=Shop.objects.for_user(user)))

    def of_customer(self, user: User) -> Self:
        """Return the parent orders that this user placed."""
        return self.filter(customer=user, parent=None)

    def managed_by(self, user: User) -> Self:
        """Return the orders that this user fulfils: the children of their shops, or of all for a super admin."""
        return self.filter(shop__in=Shop.objects.managed_by(user))

    def with_response_size(self) -> Self:
        """Annotate `response_size`: an estimate of the bytes of JSON.

        A line of a part is in the whole order too, and the addresses of the whole order are in each part.
        """
        grouped = [
            OrderLine.objects.filter(order=OuterRef("pk")).order_by().values("order"),
            OrderLine.objects.filter(order__parent=OuterRef("pk")).order_by().values("order__parent"),
            Order.objects.filter(parent=OuterRef("pk")).order_by().values("parent"),
        ]
        own_lines, lines, parts = (
            Coalesce(Subquery(rows.annotate(count=Count("pk")).values("count")), 0) for rows in grouped
        )
        addresses = [Length(Cast(name, models.TextField())) for name in ("billing_address", "shipping_address")]
        own_bytes = addresses[0] + addresses[1] + BYTES_PER_ORDER
        return self.annotate(response_size=(own_lines + 2 * lines) * BYTES_PER_LINE + (1 + parts) * own_bytes)

    def for_response(self) -> Self:
        """Select the customer, and prefetch children, lines, products and images in four queries."""
        lines = OrderLine.objects.select_related("product__image").order_by("id")
        children = Prefetch("children", Order.objects.order_by("id"))
        return self.select_related("customer").prefetch_related(
            children, Prefetch("lines", lines), Prefetch("children__lines", lines)
        )


class Order(models.Model):
    """A parent order, or a child: the part of a parent that one shop delivers.

    A parent has no shop. Only a parent has a delivery fee and sales tax; its amount and discount are the sums of its
    children's.
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        PROCESSING = "processing"
        COMPLETE = "complete"
        CANCELLED = "cancelled"
        REFUNDED = "refunded"
        FAILED = "failed"
        AT_LOCAL_FACILITY = "at-local-facility"
        OUT_FOR_DELIVERY = "out-for-delivery"

    # No indexes of their own: the composite indexes in Meta serve these three foreign keys.
    parent = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="children", db_index=False
    )
    shop = models.ForeignKey(
        Shop, on_delete=models.PROTECT, null=True, blank=True, related_name="orders", db_index=False
    )
    customer = models.ForeignKey(User, on_delete=models.PROTECT, related_name="orders", db_index=False)
    tracking_number = models.CharField(max_length=32, unique=True, default=new_tracking_number, editable=False)
    order_status = models.CharField(max_length=20, choices=Status.choices, default=Status.PENDING)
    currency = models.CharField(max_length=3)
    amount = models.PositiveBigIntegerField(help_text="The lines' sum, in minor units.")
    sales_tax = models.PositiveBigIntegerField(default=0)
    delivery_fee = models.PositiveBigIntegerField(default=0)
    discount = models.PositiveBigIntegerField(default=0)
    total = models.PositiveBigIntegerField()
    paid_total = models.PositiveBigIntegerField()
    refunded_total = models.PositiveBigIntegerField(default=0, help_text="A parent's counts its children's too.")
    payment_gateway = models.CharField(max_length=64)
    customer_contact = models.CharField(max_length=64, blank=True)
    billing_address = models.JSONField(default=dict, blank=True)
    shipping_address = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = OrderQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            # Without parents: SQLite would otherwise read all of them to find those of a few customers.
            models.Index(fields=["parent"], condition=Q(parent__isnull=False), name="commerce_order_of_parent"),
            models.Index(
                fields=["customer", "-created_at", "-id"],
                condition=Q(parent__isnull=True),
                name="commerce_order_of_customer",
            ),
            models.Index(
                fields=["shop", "-created_at", "-id"], condition=Q(shop__isnull=False), name="commerce_order_of_shop"
            ),
            # For analytics: the remaining orders of a customer in a shop after some were deleted.
            models.Index(fields=["customer", "shop"], condition=Q(shop__isnull=False), name="commerce_order_of_pair"),
            models.Index(fields=["order_status", "id"], name="commerce_order_of_status"),
            models.Index(fields=["-created_at", "-id"], condition=Q(parent__isnull=True), name="commerce_order_newest"),
            models.Index(fields=["total", "id"], condition=Q(parent__isnull=True), name="commerce_order_by_total"),
            models.Index(fields=["updated_at", "id"], condition=Q(parent__isnull=True), name="commerce_order_updated"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    order_status__in=[
                        "pending",
                        "processing",
                        "complete",
                        "cancelled",
                        "refunded",
                        "failed",
                        "at-local-facility",
                        "out-for-delivery",
                    ]
                ),
                name="commerce_order_status_known",
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=True, shop__isnull=True) | Q(parent__isnull=False, shop__isnull=False),
                name="commerce_order_child_has_shop",
            ),
            models.CheckConstraint(
                condition=Q(total=F("amount") + F("sales_tax") + F("delivery_fee") - F("discount")),
                name="commerce_order_total_adds_up",
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=True) | Q(sales_tax=0, delivery_fee=0),
                name="commerce_order_fees_on_parent",
            ),
            models.CheckConstraint(condition=Q(discount__lte=F("amount")), name="commerce_order_discount_bounded"),
            models.CheckConstraint(condition=Q(paid_total__lte=F("total")), name="commerce_order_paid_bounded"),
            models.CheckConstraint(
                condition=Q(refunded_total__lte=F("paid_total")), name="commerce_order_refunded_bounded"
            ),
            models.CheckConstraint(condition=Q(currency__regex=r"^[A-Z]{3}$"), name="commerce_order_currency_iso_4217"),
        ]

    def __str__(self) -> str:
        return self.tracking_number

    @property
    def is_parent(self) -> bool:
        return self.parent_id is None


class OrderLine(models.Model):
    """A quantity of a product in a child order, at the price when it was bought."""

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="lines")
    product = models.ForeignKey(Product, on_delete=models.PROTECT, related_name="order_lines")
    variation = models.ForeignKey(
        Variation, on_delete=models.PROTECT, null=True, blank=True, related_name="order_lines"
    )
    quantity = models.PositiveIntegerField()
    unit_price = models.PositiveBigIntegerField()
    subtotal = models.PositiveBigIntegerField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(condition=Q(quantity__gt=0), name="commerce_order_line_of_something"),
            models.CheckConstraint(
                condition=Q(subtotal=F("unit_price") * F("quantity")), name="commerce_order_line_adds_up"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.quantity} x {self.product_id} in order {self.order_id}"


class RefundQuerySet(models.QuerySet["Refund"]):
    def for_user(self, user: User) -> Self:
        """Return the user's own refunds and those of the shops they own or work in, or all for a super admin."""
        if user.role == Role.SUPER_ADMIN:
            return self.all()
        return self.filter(Q(customer=user) | Q(shop__in=Shop.objects.for_user(user)))

    def managed_by(self, user: User) -> Self:
        """Return the refunds that this user decides: those of the shops they own, or all for a super admin."""
        return self.all() if user.role == Role.SUPER_ADMIN else self.filter(shop__owner=user)


class Refund(models.Model):
    """A refund that a customer requests: from the shop for a child order, from the platform for a parent."""

    class Status(models.TextChoices):
        REQUESTED = "requested"
        APPROVED = "approved"
        REJECTED = "rejected"

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="refunds")
    # Copies of the order's customer and shop, for the lists; the composite indexes in Meta serve them.
    customer = models.ForeignKey(User, on_delete=models.PROTECT, related_name="refunds", db_index=False)
    shop = models.ForeignKey(
        Shop, on_delete=models.PROTECT, null=True, blank=True, related_name="refunds", db_index=False
    )
    amount = models.PositiveBigIntegerField(help_text="In minor units of the order's currency.")
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.REQUESTED)
    reason = models.TextField(blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = RefundQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["status", "-id"], name="commerce_refund_by_status"),
            models.Index(fields=["-created_at", "-id"], name="commerce_refund_newest"),
            models.Index(fields=["updated_at", "id"], name="commerce_refund_updated"),
            models.Index(fields=["amount", "id"], name="commerce_refund_by_amount"),
            models.Index(fields=["customer", "-id"], name="commerce_refund_of_customer"),
            models.Index(fields=["shop", "-id"], name="commerce_refund_of_shop"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="commerce_refund_of_something"),
            models.CheckConstraint(
                condition=Q(status__in=["requested", "approved", "rejected"]), name="commerce_refund_status_known"
            ),
            models.UniqueConstraint(
                fields=["order"], condition=Q(status="requested"), name="commerce_refund_one_open_an_order"
            ),
        ]

    def __str__(self) -> str:
        return f"Refund {self.pk} of order {self.order_id}"
