"""Reading all metrics."""

from datetime import datetime

import structlog
from django.db import DatabaseError
from prometheus_client.core import Metric

import commerce.descriptions.provider  # noqa: F401  what it declares is told here, also where a worker alone counts it
from commerce.metrics.queues import queue_families
from shared.observability import metrics

logger = structlog.get_logger(__name__)


def read_metrics(*, now: datetime) -> bytes:
    """All of them in Prometheus' text form. What the database does not tell is not in it."""
    return metrics.render(_queues(now))


def _queues(now: datetime) -> list[Metric]:
    try:
        return queue_families(now)
    except DatabaseError as error:
        logger.warning("metrics_without_database", reason=type(error).__name__)
        return []
