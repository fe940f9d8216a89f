"""Exporter of completed spans to the database, once a second in a thread of its own.

Only spans of authenticated users are stored, or anybody could fill the store. Spans that cannot be written are lost.
"""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import structlog
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.db.models import Max, Q
from django.utils import timezone
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from inference.traces.models import MAX_OPERATION_NAME_LENGTH, RETENTION, Span
from shared.observability.tracing import REQUEST_ID, USER_ID

DELETE_INTERVAL_SECONDS = 60.0
MAX_DELETED_PER_RUN = 2000

# In the order of `_row`.
_COLUMNS = tuple(str(field.column) for field in Span._meta.concrete_fields if not field.primary_key)
# Raw SQL: a request has five spans, and creating them as model instances would take a fifth of its time.
_INSERT = f"INSERT INTO {Span._meta.db_table} ({', '.join(_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_COLUMNS))})"  # noqa: S608  # nosec B608 names

logger = structlog.get_logger(__name__)


class DatabaseSpanExporter(SpanExporter):
    """Span exporter that writes to the database and deletes old spans."""

    def __init__(self) -> None:
        self._delete_at = time.monotonic()
        self._fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Save the spans. If the database fails, they are dropped and the failure is logged once."""
        try:
            save_spans(spans)
            self._delete_old()
        except DatabaseError as error:
            if not self._fails:
                logger.warning("traces_not_stored", reason=type(error).__name__)
            self._fails = True
            return SpanExportResult.FAILURE
        finally:
            if not connection.in_atomic_block:  # in tests, which roll back
                connection.close()
        self._fails = False
        return SpanExportResult.SUCCESS

    def _delete_old(self) -> None:
        if time.monotonic() >= self._delete_at:
            self._delete_at = time.monotonic() + DELETE_INTERVAL_SECONDS
            while delete_old_spans(now=timezone.now()):
                pass


def save_spans(spans: Sequence[ReadableSpan]) -> None:
    """Write the spans of authenticated users, in one transaction."""
    rows = [_row(span) for span in spans if (span.attributes or {}).get(USER_ID)]
    if rows:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(_INSERT, rows)


def delete_old_spans(*, now: datetime) -> int:
    """Delete some spans that are older than a day or above MAX_TRACE_SPANS. Return their number.

    Primary keys are roughly in the order of time.
    """
    oldest = list(Span.objects.order_by("pk").values_list("pk", flat=True)[:MAX_DELETED_PER_RUN])
    if not oldest:
        return 0
    newest = Span.objects.aggregate(newest=Max("pk"))["newest"]
    is_old = Q(started_at__lte=now - RETENTION) | Q(pk__lte=newest - settings.MAX_TRACE_SPANS)
    deleted, _ = Span.objects.filter(is_old, pk__lte=oldest[-1]).delete()
    return deleted


def _row(span: ReadableSpan) -> tuple[str | int | None, ...]:
    context, attributes = span.get_span_context(), dict(span.attributes or {})
    assert context is not None  # noqa: S101  a completed span has a context
    start_ns, end_ns = span.start_time or 0, span.end_time or 0
    user_id, request_id = int(str(attributes.pop(USER_ID))), str(attributes.pop(REQUEST_ID, ""))
    return (
        format_trace_id(context.trace_id),
        format_span_id(context.span_id),
        format_span_id(span.parent.span_id) if span.parent else "",
        span.name[:MAX_OPERATION_NAME_LENGTH],
        user_id,
        request_id,
        connection.ops.adapt_datetimefield_value(datetime.fromtimestamp(start_ns / 1e9, UTC)),
        max(0, round((end_ns - start_ns) / 1e6)),
        Span.Status.ERROR.value if span.status.status_code is StatusCode.ERROR else Span.Status.OK.value,
        json.dumps({name: value for name, value in attributes.items() if isinstance(value, str | int | float)}),
    )
