"""Reading all metrics, and taking a client's own."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone
from prometheus_client.core import Metric

import inference.batches.outcomes
import inference.registry.measuring
import inference.webhooks.delivery  # noqa: F401  what they declare is told here, also where a worker alone counts it
from inference.metrics import custom
from inference.metrics.queues import queue_families
from inference.metrics.running import running_families
from inference.protocol.metrics import Kind
from inference.registry.wanted import off_the_loop
from shared.api.errors import ApiError
from shared.observability import metrics

RETRY_S = 60  # what can be wrong is the disk

logger = structlog.get_logger(__name__)


async def read_metrics() -> bytes:
    """All of them in Prometheus' text form. What cannot be asked just now is not in it."""
    running, queues = await asyncio.gather(running_families(), _queues())
    return await asyncio.to_thread(_render, [*running, *queues])


async def record_custom(*, name: str, kind: Kind, value: float, labels: Mapping[str, str]) -> float:
    """Takes a client's number, and answers what its metric is now. Raises InvalidRequest, ApiError 503."""
    try:
        return await asyncio.to_thread(custom.record, _folder(), name=name, kind=kind, value=value, labels=labels)
    except OSError as error:
        logger.warning("custom_metric_not_kept", reason=type(error).__name__)
        raise ApiError(503, "It cannot be kept just now.", headers={"Retry-After": str(RETRY_S)}) from error


async def _queues() -> list[Metric]:
    try:
        return await off_the_loop(queue_families, timezone.now())
    except DatabaseError as error:
        logger.warning("metrics_without_database", reason=type(error).__name__)
        return []


def _render(families: list[Metric]) -> bytes:
    return metrics.render(families) + custom.render(_folder())


def _folder() -> Path:
    folder: Path = settings.METRICS_DIR / settings.PROJECT
    return folder
