"""What waits in the database. Every server of one database tells the same: take the greatest, not the sum."""

from datetime import datetime

from django.db.models import Count, Min
from prometheus_client.core import GaugeMetricFamily, Metric

from commerce.analytics.services import measure_lag
from commerce.descriptions.models import DescriptionJob
from commerce.moderation.models import Case
from shared.observability.database import database_families


def queue_families(now: datetime) -> list[Metric]:
    """Raises DatabaseError."""
    waiting = Case.objects.waiting().aggregate(cases=Count("pk"), oldest=Min("oldest_at"))
    lag = measure_lag(now=now)
    jobs = DescriptionJob.objects.filter(ended_at=None).aggregate(jobs=Count("pk"), oldest=Min("created_at"))
    return [
        GaugeMetricFamily("stoa_moderation_cases_waiting", "Cases that moderators are to decide.", waiting["cases"]),
        GaugeMetricFamily(
            "stoa_moderation_oldest_age_seconds",
            "The age of the oldest report among them.",
            _age(waiting["oldest"], now),
        ),
        GaugeMetricFamily(
            "stoa_analytics_entries_waiting", "Differences that are not folded into figures.", lag.entries
        ),
        GaugeMetricFamily(
            "stoa_analytics_lag_seconds",
            "The age of the oldest of them.",
            lag.seconds,
        ),
        GaugeMetricFamily("stoa_description_jobs_open", "Jobs of descriptions that have not ended.", jobs["jobs"]),
        GaugeMetricFamily(
            "stoa_description_oldest_age_seconds", "The age of the oldest of them.", _age(jobs["oldest"], now)
        ),
        *database_families(),
    ]


def _age(since: datetime | None, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since else 0.0
