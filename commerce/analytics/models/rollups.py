"""Rollups: sums by period and by product, first orders of customers, and the shops of owner groups."""

from django.db import models
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Cast


class PeriodRollup(models.Model):
    """Sums of one day, one month or all time, for a shop or the platform, by currency and order status.

    The platform counts parent orders, a shop its own orders. Refunds and new customers have no status.
    """

    class Grain(models.TextChoices):
        DAY = "day"
        MONTH = "month"
        ALL = "all"

    generation = models.IntegerField()
    grain = models.CharField(max_length=5, choices=Grain.choices)
    starts_on = models.DateField()
    shop_id = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    status = models.CharField(max_length=20)
    orders = models.BigIntegerField()
    revenue = models.BigIntegerField()
    refunds = models.BigIntegerField()
    customers = models.BigIntegerField()

    class Meta:
        db_table = "commerce_analytics_figure"
        constraints = [
            models.UniqueConstraint(
                fields=["generation", "shop_id", "grain", "starts_on", "currency", "status"],
                name="commerce_analytics_one_figure",
            )
        ]
        indexes = [models.Index(fields=["generation", "grain", "starts_on"], name="commerce_analytics_of_a_day")]

    def __str__(self) -> str:
        return f"{self.grain} {self.starts_on}, shop {self.shop_id}"


class ProductRollup(models.Model):
    """Units of a product sold by a shop in a currency; and, with shop 0 and no currency, the stars of its reviews."""

    generation = models.IntegerField()
    product_id = models.BigIntegerField()
    shop_id = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    units = models.BigIntegerField()
    stars = models.BigIntegerField()
    reviews = models.BigIntegerField()
    average = models.GeneratedField(
        expression=Case(
            When(reviews=0, then=Value(0.0)),
            default=Cast(F("stars"), models.FloatField()) / Cast(F("reviews"), models.FloatField()),
        ),
        output_field=models.FloatField(),
        db_persist=True,
    )

    class Meta:
        db_table = "commerce_analytics_productfigure"
        constraints = [
            models.UniqueConstraint(
                fields=["generation", "product_id", "shop_id", "currency"], name="commerce_analytics_one_product_figure"
            )
        ]
        indexes = [
            models.Index(
                fields=["generation", "-average", "-reviews", "product_id"],
                condition=Q(reviews__gt=0),
                name="commerce_analytics_top_rated",
            )
        ]

    def __str__(self) -> str:
        return f"Product {self.product_id}"


class OwnerGroupShop(models.Model):
    """One shop of an owner group: all shops of an owner who has several. First orders are kept for each group too."""

    generation = models.IntegerField()
    owner_id = models.BigIntegerField()
    shop_id = models.BigIntegerField()

    class Meta:
        db_table = "commerce_analytics_chainshop"
        constraints = [
            models.UniqueConstraint(fields=["generation", "shop_id"], name="commerce_analytics_one_chain"),
        ]
        indexes = [models.Index(fields=["generation", "owner_id"], name="commerce_analytics_of_a_chain")]

    def __str__(self) -> str:
        return f"Shop {self.shop_id} of owner {self.owner_id}"


class FirstOrder(models.Model):
    """The time of a customer's first order from a shop, or from an owner group: `shop_id` is then minus the owner's
    id."""

    generation = models.IntegerField()
    shop_id = models.BigIntegerField()
    customer_id = models.BigIntegerField()
    first_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["generation", "shop_id", "customer_id"], name="commerce_analytics_one_first_order"
            )
        ]
        indexes = [models.Index(fields=["generation", "shop_id", "first_at"], name="commerce_analytics_new_to_shop")]

    def __str__(self) -> str:
        return f"Customer {self.customer_id} at shop {self.shop_id}"
