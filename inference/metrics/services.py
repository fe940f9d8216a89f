"""Read all metrics and record custom ones."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone
from prometheus_client.core import Metric

import inference.batches.worker.recording  # noqa: F401 the import registers their metrics
import shared.webhooks.delivery.outbox  # noqa: F401 the import registers their metrics
from inference.metrics import custom_metrics
from inference.metrics.model_metrics import read_model_metrics
from inference.metrics.pool_metrics import read_pool_metrics
from inference.metrics.queue_metrics import read_queue_metrics
from inference.protocol.native.metrics import MetricType
from shared.api.errors import ApiError
from shared.observability import metrics
from shared.serving.db_threads import run_in_db_thread

RETRY_AFTER_SECONDS = 60  # the likely cause is a full disk

logger = structlog.get_logger(__name__)


async def read_metrics() -> bytes:
    """Return all metrics in Prometheus' text format, without those of models or a database that do not answer."""
    running, pools, queues = await asyncio.gather(read_model_metrics(), read_pool_metrics(), _queues())
    return await asyncio.to_thread(_render, [*running, *pools, *queues])


async def record_custom(*, name: str, kind: MetricType, value: float, labels: Mapping[str, str]) -> float:
    """Record a value and return the metric's new one. Raise InvalidRequest, or ApiError 503 for a full disk."""
    try:
        return await asyncio.to_thread(
            custom_metrics.record_value, _folder(), name=name, kind=kind, value=value, labels=labels
        )
    except OSError as error:
        logger.warning("custom_metric_not_stored", reason=type(error).__name__)
        raise ApiError(
            503, "The metric could not be stored. Try again later.", headers={"Retry-After": str(RETRY_AFTER_SECONDS)}
        ) from error


async def _queues() -> list[Metric]:
    try:
        return await run_in_db_thread(read_queue_metrics, timezone.now())
    except DatabaseError as error:
        logger.warning("database_metrics_skipped", reason=type(error).__name__)
        return []


def _render(families: list[Metric]) -> bytes:
    return metrics.render(families) + custom_metrics.render_metrics(_folder())


def _folder() -> Path:
    folder: Path = settings.METRICS_DIR / settings.PROJECT
    return folder
