"""The ledger of differences, the figures that it is folded into, and how far that work is.

No foreign keys: these rows follow what the shop's tables say, also when something there goes. A shop of 0 is the whole
platform, a customer or product of 0 none. Money is in minor units.
"""

from django.db import models
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Cast, Now


class Source(models.IntegerChoices):
    """Where an entry comes from; its `source_id` is the whole order's (the parent's), the user's or the review's."""

    ORDERS = 0
    USERS = 1
    REVIEWS = 2


class Entry(models.Model):
    """A signed difference, written by a trigger in the transaction of what changed, and gone once it is folded."""

    source = models.SmallIntegerField(choices=Source.choices)
    source_id = models.BigIntegerField()
    happened_at = models.DateTimeField()
    shop_id = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    status = models.CharField(max_length=20)
    customer_id = models.BigIntegerField()
    product_id = models.BigIntegerField()
    orders = models.IntegerField()
    # Of a shop's part what it sold; of a parent its fee and tax, which only the platform's revenue has.
    revenue = models.BigIntegerField()
    refunds = models.BigIntegerField()
    customers = models.IntegerField()
    units = models.BigIntegerField()
    stars = models.IntegerField()
    reviews = models.IntegerField()
    written_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "entries"

    def __str__(self) -> str:
        return f"Entry {self.pk}"


class Figure(models.Model):
    """The sums of one day, month or of all time, of a shop or of the platform, in a currency and an order status.

    Orders are parents for the platform and parts for a shop. Refunds and new customers have no status."""

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
        constraints = [
            models.UniqueConstraint(
                fields=["generation", "shop_id", "grain", "starts_on", "currency", "status"],
                name="commerce_analytics_one_figure",
            )
        ]
        indexes = [models.Index(fields=["generation", "grain", "starts_on"], name="commerce_analytics_of_a_day")]

    def __str__(self) -> str:
        return f"{self.grain} {self.starts_on} of shop {self.shop_id}"


class ProductFigure(models.Model):
    """What was sold of a product by a shop in a currency; and (shop 0, no currency) the stars of its reviews."""

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


class ChainShop(models.Model):
    """One shop of a chain, which is all the shops of an owner who has several. A chain has first orders of its own."""

    generation = models.IntegerField()
    owner_id = models.BigIntegerField()
    shop_id = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["generation", "shop_id"], name="commerce_analytics_one_chain"),
        ]
        indexes = [models.Index(fields=["generation", "owner_id"], name="commerce_analytics_of_a_chain")]

    def __str__(self) -> str:
        return f"Shop {self.shop_id} of owner {self.owner_id}"


class FirstOrder(models.Model):
    """When a customer first ordered from a shop; or, with minus the owner's id as the shop, from any of a chain."""

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


class Books(models.Model):
    """The one row that says which figures count, in which time zone they are, and how far a rebuild is. Whoever folds
    or rebuilds holds its lock. Others write a column or two of it in one statement: `open_books` after a migration,
    `reconcile_nightly`, and the triggers of a TRUNCATE."""

    generation = models.IntegerField(default=1)
    time_zone = models.CharField(max_length=64)
    is_stale = models.BooleanField(default=False)  # something was written past the triggers
    next_generation = models.IntegerField(null=True)  # of the rebuild that runs
    next_time_zone = models.CharField(max_length=64, blank=True)
    rebuilt_source = models.SmallIntegerField(default=Source.ORDERS, choices=Source.choices)
    rebuilt_id = models.BigIntegerField(default=0)  # up to here, of this source, the next generation has all
    folded_at = models.DateTimeField(null=True)  # changes with every fold: one of an older moment is refused
    # As `folded_at`, unless a process of a version that knew no chains has folded since.
    chains_folded_at = models.DateTimeField(null=True)
    reconciled_on = models.DateField(null=True)

    class Meta:
        verbose_name_plural = "books"
        constraints = [models.CheckConstraint(condition=Q(pk=1), name="commerce_analytics_one_row_of_books")]

    def __str__(self) -> str:
        return f"Generation {self.generation}, {self.time_zone}"

    @property
    def keeps_chains(self) -> bool:
        """The first orders of chains have all that is folded."""
        return self.chains_folded_at == self.folded_at
