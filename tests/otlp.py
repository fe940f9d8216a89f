"""A minimal trace collector: it receives OTLP over HTTP and keeps the spans."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

T = TypeVar("T")


@dataclass(frozen=True)
class SentSpan:
    """A received span. `status` is 2 for an error."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_span_id: str
    kind: int
    status: int
    began_ns: int
    ended_ns: int
    attributes: dict[str, Any]


class Collector:
    """Collector of spans: `spans` are all that were received, `raw` is their encoding."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.raw = b""
        self.spans: list[SentSpan] = []
        self.environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "100"}

    def take(self, body: bytes) -> None:
        self.raw += body
        for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = _plain(sent.resource.attributes)
            for scope in sent.scope_spans:
                self.spans += [_span(str(about["service.name"]), span) for span in scope.spans]

    def of_trace(self, trace_id: str, *names: str) -> dict[str, SentSpan]:
        """Wait for the spans with these names, and return all spans of the trace by name."""
        return self.wait_for(
            lambda: {span.name: span for span in self.spans if span.trace_id == trace_id},
            lambda found: set(names) <= set(found),
        )

    def named(self, name: str) -> SentSpan:
        """Wait for a span of this name, and return the last one."""
        return self.wait_for(lambda: [span for span in self.spans if span.name == name], bool)[-1]

    def wait_for(self, look: Callable[[], T], holds: Callable[[T], Any]) -> T:
        deadline = time.monotonic() + 60
        while not holds(found := look()):
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        return found


@contextmanager
def running_collector() -> Iterator[Collector]:
    """Run a collector for the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _span(service: str, span: Any) -> SentSpan:
    return SentSpan(
        service=service,
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex(),
        kind=span.kind,
        status=span.status.code,
        began_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        attributes=_plain(span.attributes),
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
