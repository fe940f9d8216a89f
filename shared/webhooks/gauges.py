"""Gauges of webhook deliveries in the database.

All servers of one database report the same values: take their maximum, not their sum.
"""

from datetime import datetime

from django.db.models import Min
from prometheus_client.core import GaugeMetricFamily, Metric

from shared.webhooks.models import Delivery


def webhook_gauges(now: datetime) -> list[Metric]:
    """Return the gauges. Raise DatabaseError."""
    waiting = Delivery.objects.unfinished().count()
    oldest = Delivery.objects.due(now).aggregate(oldest=Min("due_at"))["oldest"]
    lag = max(0.0, (now - oldest).total_seconds()) if oldest else 0.0
    return [
        GaugeMetricFamily(
            "stoa_webhook_deliveries_waiting", "Webhook deliveries that have not succeeded or failed yet.", waiting
        ),
        GaugeMetricFamily("stoa_webhook_lag_seconds", "Time since the earliest due delivery was due.", lag),
    ]
