"""Metrics of the queues in the database.

All servers of one database report the same values: take their maximum, not their sum.
"""

from datetime import datetime

from django.db.models import Count, Min, Q, Sum
from prometheus_client.core import GaugeMetricFamily, Metric

from inference.batches.models import Batch
from inference.openai_batches.models import Handover
from shared.observability.database_metrics import database_metric_families
from shared.webhooks.gauges import webhook_gauges

HANDED_OVER = (Handover.State.SENDING, Handover.State.RUNNING)


def read_queue_metrics(now: datetime) -> list[Metric]:
    """Return the metrics of batches, webhook deliveries and the database. Raise DatabaseError."""
    return [*_batches(now), *webhook_gauges(now), *database_metric_families()]


def _batches(now: datetime) -> list[Metric]:
    is_ours = ~Q(handover__state__in=HANDED_OVER) | Q(handover=None)  # what our own workers have to run
    counts = Batch.objects.filter(ended_at=None).aggregate(
        batches=Count("pk"),
        total=Sum("total", filter=is_ours),
        completed=Sum("completed", filter=is_ours),
        failed=Sum("failed", filter=is_ours),
        oldest=Min("created_at", filter=is_ours),
    )
    open_requests = (counts["total"] or 0) - (counts["completed"] or 0) - (counts["failed"] or 0)
    return [
        GaugeMetricFamily("stoa_batches_processing", "Batches that have not ended.", counts["batches"]),
        GaugeMetricFamily(
            "stoa_batch_requests_open", "Requests of unfinished batches here without a result.", open_requests
        ),
        GaugeMetricFamily(
            "stoa_batch_oldest_age_seconds", "Age of the oldest unfinished batch here.", _age(counts["oldest"], now)
        ),
    ]


def _age(since: datetime | None, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since else 0.0
