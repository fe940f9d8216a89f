"""Collection of all metrics."""

from datetime import datetime

import structlog
from django.db import DatabaseError
from prometheus_client.core import Metric

import commerce.descriptions.provider.client  # noqa: F401  declares its metrics even if only a worker counts them
import shared.webhooks.delivery.outbox  # noqa: F401  the same
from commerce.metrics.database_gauges import database_gauges
from shared.observability import metrics

logger = structlog.get_logger(__name__)


def read_metrics(*, now: datetime) -> bytes:
    """Return all metrics in Prometheus' text format, without those of the database if it fails."""
    return metrics.render(_database_gauges(now))


def _database_gauges(now: datetime) -> list[Metric]:
    try:
        return database_gauges(now)
    except DatabaseError as error:
        logger.warning("database_metrics_skipped", reason=type(error).__name__)
        return []
