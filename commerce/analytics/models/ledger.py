"""Ledger entries: database triggers write them, and aggregation consumes them."""

from django.db import models
from django.db.models.functions import Now


class LedgerSource(models.IntegerChoices):
    """The kind of row an entry comes from; `source_id` is the id of the parent order, the user or the review."""

    ORDERS = 0
    USERS = 1
    REVIEWS = 2


class LedgerEntry(models.Model):
    """A signed difference that a trigger writes in the transaction of the change; aggregation deletes it."""

    source = models.SmallIntegerField(choices=LedgerSource.choices)
    source_id = models.BigIntegerField()
    happened_at = models.DateTimeField()
    shop_id = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    status = models.CharField(max_length=20)
    customer_id = models.BigIntegerField()
    product_id = models.BigIntegerField()
    orders = models.IntegerField()
    # The lines of a shop's order; the fee and tax of a parent order, which count only for the platform.
    revenue = models.BigIntegerField()
    refunds = models.BigIntegerField()
    customers = models.IntegerField()
    units = models.BigIntegerField()
    stars = models.IntegerField()
    reviews = models.IntegerField()
    written_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "commerce_analytics_entry"
        verbose_name_plural = "ledger entries"

    def __str__(self) -> str:
        return f"Ledger entry {self.pk}"
