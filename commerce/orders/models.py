"""Orders as a two-level tree: a parent is what the customer pays, with a child for each shop that delivers a part.

The lines belong to the children. Money is in the minor units of the order's currency.
"""

import secrets
from typing import Self

from django.db import models
from django.db.models import F, Q

from commerce.catalog.models import Product, Variation
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role


def new_tracking_number() -> str:
    """76 random bits behind a letter, so that it is never taken for an id."""
    return tracking_number(secrets.randbits(76))


def tracking_number(bits: int) -> str:
    """The tracking number that these 76 bits spell."""
    return f"S{bits:019X}"


class OrderQuerySet(models.QuerySet["Order"]):
    def for_user(self, user: User) -> Self:
        """What this user bought, and what is bought in the shops they own or work in; everything for a super admin."""
        if user.role == Role.SUPER_ADMIN:
            return self.all()
        return self.filter(Q(customer=user) | Q(shop__in=Shop.objects.for_user(user)))

    def of_customer(self, user: User) -> Self:
        """What this user bought, as they paid for it: the parents."""
        return self.filter(customer=user, parent=None)

    def managed_by(self, user: User) -> Self:
        """The orders that this user fulfils: children of their own shops; of every shop for a super admin."""
        return self.filter(shop__in=Shop.objects.managed_by(user))


class Order(models.Model):
    """A parent (no shop, no parent) or the part of it that one shop delivers. Fee and tax are the parent's alone; a
    parent's amount and discount are the sums of its children's."""

    class Status(models.TextChoices):
        PENDING = "pending"
        PROCESSING = "processing"
        COMPLETE = "complete"
        CANCELLED = "cancelled"
        REFUNDED = "refunded"
        FAILED = "failed"
        AT_LOCAL_FACILITY = "at-local-facility"
        OUT_FOR_DELIVERY = "out-for-delivery"

    # The indexes below serve these three look-ups: none of their own.
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
            # Without the parents: SQLite would else read all of them to find those of a few customers.
            models.Index(fields=["parent"], condition=Q(parent__isnull=False), name="commerce_order_of_parent"),
            models.Index(
                fields=["customer", "-created_at", "-id"],
                condition=Q(parent__isnull=True),
                name="commerce_order_of_customer",
            ),
            models.Index(
                fields=["shop", "-created_at", "-id"], condition=Q(shop__isnull=False), name="commerce_order_of_shop"
            ),
            # For the figures: what customers have left of shops, once orders went.
            models.Index(fields=["customer", "shop"], condition=Q(shop__isnull=False), name="commerce_order_of_pair"),
            models.Index(fields=["order_status", "-id"], name="commerce_order_by_status"),
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
    """A product in one shop's order, at the price of the day it was bought."""

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
        """What this user asked for, and what is asked of the shops they own or work in; all for a super admin."""
        if user.role == Role.SUPER_ADMIN:
            return self.all()
        return self.filter(Q(customer=user) | Q(shop__in=Shop.objects.for_user(user)))

    def managed_by(self, user: User) -> Self:
        """The refunds that this user decides: of the shops they own; all for a super admin."""
        return self.all() if user.role == Role.SUPER_ADMIN else self.filter(shop__owner=user)


class Refund(models.Model):
    """Money asked back for an order: from the shop of a child, or from the platform for a parent."""

    class Status(models.TextChoices):
        REQUESTED = "requested"
        APPROVED = "approved"
        REJECTED = "rejected"

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="refunds")
    # The order's own, here for the lists; the indexes below serve the look-ups.
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
