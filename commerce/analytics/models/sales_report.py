"""Sales reports, which are computed from the orders when a read requests them."""

from typing import Any

from django.db import models


class SalesReport(models.Model):
    """The sales of some shops or of the platform as of `computed_at`, in ids and minor units.

    Names are joined when a report is read, so that it holds no personal data. `data` is null until the first
    computation; `reports.sales_computation` describes it.
    """

    scope = models.CharField(max_length=40, unique=True)
    shop_ids = models.JSONField(null=True)  # null: the whole platform
    time_zone = models.CharField(max_length=64, blank=True)
    orders = models.IntegerField(default=0)
    days: Any = models.JSONField(null=True)
    customers: Any = models.JSONField(null=True)
    products: Any = models.JSONField(null=True)
    categories: Any = models.JSONField(null=True)
    attributes: Any = models.JSONField(null=True)
    computed_at = models.DateTimeField(null=True)
    seconds = models.FloatField(default=0.0)
    # A worker computes the report while `requested_at` is set; `started_at` is when one began.
    requested_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["requested_at"],
                condition=models.Q(requested_at__isnull=False),
                name="commerce_analytics_requested",
            )
        ]

    def __str__(self) -> str:
        return f"Sales of {self.scope}"
