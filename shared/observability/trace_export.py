"""Export of spans: to the project's own store, if it has one, and by OTLP to a collector, if one is configured.

Each exporter reads a queue in a thread of its own. Spans that do not fit or cannot be exported are dropped, so no
request waits for a trace.
"""

import atexit
import threading
from collections.abc import Sequence

import structlog
from django.conf import settings
from django.utils.module_loading import import_string
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from shared.observability import tracing

STORE_INTERVAL_MS = 1000
MAX_QUEUED_SPANS = 4096
FLUSH_TIMEOUT_SECONDS = 2.0  # for the remaining spans at the end of the process

logger = structlog.get_logger(__name__)


def start_tracing() -> None:
    """Start tracing in this process. Servers and workers call it when they start; no other process is traced."""
    if not settings.TRACING:
        return
    processors = [*_to_store(), *_to_collector()]
    if not processors:
        return
    name = settings.TRACING_SERVICE or f"stoa-{settings.PROJECT}"
    resource = Resource.create({SERVICE_NAME: name, SERVICE_VERSION: settings.VERSION})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)  # it would wait for a collector that is down
    for processor in processors:
        provider.add_span_processor(processor)
    tracing.set_tracer(provider.get_tracer("stoa", settings.VERSION))
    atexit.register(_flush, processors)


class LoggingSpanExporter(SpanExporter):
    """OTLP exporter that logs once when it starts to fail, and once when it works again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        fails = result is not SpanExportResult.SUCCESS
        if fails != self._fails:
            self._fails = fails
            (logger.warning if fails else logger.info)("traces_lost" if fails else "traces_sent_again")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def _to_store() -> list[BatchSpanProcessor]:
    if not settings.TRACE_STORE:
        return []
    store: SpanExporter = import_string(settings.TRACE_STORE)()
    return [
        BatchSpanProcessor(
            store,
            max_queue_size=MAX_QUEUED_SPANS,
            schedule_delay_millis=STORE_INTERVAL_MS,
            max_export_batch_size=MAX_QUEUED_SPANS,  # one write per second instead of one per full batch
        )
    ]


def _to_collector() -> list[BatchSpanProcessor]:
    """Return the processor for the collector. Its exporter reads the rest of OpenTelemetry's variables itself."""
    if not settings.TRACING_COLLECTOR:
        return []
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # heavy, and rarely used

    return [BatchSpanProcessor(LoggingSpanExporter(OTLPSpanExporter()))]


def _flush(processors: Sequence[BatchSpanProcessor]) -> None:
    """Export the remaining spans, as far as there is time."""
    threads = [threading.Thread(target=processor.force_flush, daemon=True) for processor in processors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(FLUSH_TIMEOUT_SECONDS / len(threads))
