"""Gauges of what waits in the database.

All servers of one database report the same numbers: aggregate them by maximum, not by sum.
"""

from datetime import datetime

from django.db.models import Count, Min
from prometheus_client.core import GaugeMetricFamily, Metric

from commerce.analytics.aggregation.batches import measure_lag
from commerce.descriptions.models import DescriptionJob
from commerce.moderation.models import Case
from shared.observability.database_metrics import database_metric_families
from shared.webhooks.gauges import webhook_gauges


def database_gauges(now: datetime) -> list[Metric]:
    """Return the gauges. Raises DatabaseError."""
    cases = Case.objects.waiting().aggregate(count=Count("pk"), oldest=Min("oldest_at"))
    lag = measure_lag(now=now)
    jobs = DescriptionJob.objects.filter(ended_at=None).aggregate(count=Count("pk"), oldest=Min("created_at"))
    return [
        GaugeMetricFamily("stoa_moderation_cases_waiting", "Moderation cases without a decision.", cases["count"]),
        GaugeMetricFamily(
            "stoa_moderation_oldest_age_seconds",
            "Age of the oldest report in these cases.",
            _age_seconds(cases["oldest"], now),
        ),
        GaugeMetricFamily("stoa_analytics_entries_waiting", "Ledger entries that are not aggregated yet.", lag.entries),
        GaugeMetricFamily("stoa_analytics_lag_seconds", "Age of the oldest of these entries.", lag.seconds),
        GaugeMetricFamily("stoa_description_jobs_open", "Description jobs that have not ended.", jobs["count"]),
        GaugeMetricFamily(
            "stoa_description_oldest_age_seconds", "Age of the oldest of these jobs.", _age_seconds(jobs["oldest"], now)
        ),
        *webhook_gauges(now),
        *database_metric_families(),
    ]


def _age_seconds(since: datetime | None, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since else 0.0
