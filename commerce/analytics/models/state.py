"""The state of aggregation and of rebuilds."""

from django.db import models
from django.db.models import Q

from commerce.analytics.models.ledger import LedgerSource


class RollupState(models.Model):
    """The single row that names the current generation and its time zone, and the progress of a rebuild.

    Aggregation and rebuilds hold the row's lock. Three others update one or two columns in one statement:
    `ensure_triggers` after a migration, `reconcile_nightly`, and the TRUNCATE triggers.
    """

    generation = models.IntegerField(default=1)
    time_zone = models.CharField(max_length=64)
    is_stale = models.BooleanField(default=False)  # rows were written while triggers were missing
    next_generation = models.IntegerField(null=True)  # set while a rebuild runs
    next_time_zone = models.CharField(max_length=64, blank=True)
    # The next generation contains every row of this source up to this id, and all of the sources before it.
    rebuilt_source = models.SmallIntegerField(default=LedgerSource.ORDERS, choices=LedgerSource.choices)
    rebuilt_id = models.BigIntegerField(default=0)
    # Each aggregation changes it, so that PostgreSQL refuses a concurrent step with an older snapshot.
    aggregated_at = models.DateTimeField(null=True, db_column="folded_at")
    # Equals `aggregated_at`, unless a release without owner groups has aggregated since.
    owner_groups_aggregated_at = models.DateTimeField(null=True, db_column="chains_folded_at")
    reconciled_on = models.DateField(null=True)

    class Meta:
        db_table = "commerce_analytics_books"
        constraints = [models.CheckConstraint(condition=Q(pk=1), name="commerce_analytics_one_row_of_books")]

    def __str__(self) -> str:
        return f"Generation {self.generation}, {self.time_zone}"

    @property
    def has_current_owner_groups(self) -> bool:
        """Return whether the first orders of owner groups include everything that is aggregated."""
        return self.owner_groups_aggregated_at == self.aggregated_at
