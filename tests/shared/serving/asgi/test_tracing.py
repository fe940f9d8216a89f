"""Traces that a server exports, and its independence of a collector that is down."""

import json
import signal
import socket
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from django.core.exceptions import ImproperlyConfigured

from shared.environment import env
from shared.observability.collector import collector
from tests.otlp import Collector, running_collector
from tests.shared.serving.conftest import StartServer

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
SERVER = 2


def tracing(url: str) -> dict[str, Any]:
    return {"TRACING": True, "TRACING_COLLECTOR": url, "TRACING_SERVICE": "", "TRACE_STORE": ""}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with running_collector() as collector:
        for name, value in collector.environment.items():
            monkeypatch.setenv(name, value)
        yield collector


def test_a_request_is_a_span_of_its_callers_trace(start_server: StartServer, taken: Collector):
    served = start_server(settings=tracing(taken.url))
    answer = served.get("/echo?canary", headers={"traceparent": SAMPLED, "X-Request-Id": "mine"})
    span = taken.of_trace(TRACE, "http")["http"]
    assert (span.parent_span_id, span.kind, span.status, span.service) == (SPAN, SERVER, 0, "stoa-served")
    assert span.attributes == {
        "stoa.request_id": "mine",
        "http.request.method": "GET",
        "http.route": "other",
        "http.response.status_code": 200,
    }
    assert answer.headers["traceparent"] == f"00-{TRACE}-{span.span_id}-01"
    line = served.wait_for_line("request", request_id="mine")
    assert line["trace_id"] == TRACE
    assert b"canary" not in taken.raw


def test_a_failure_is_an_error_span_without_its_message(start_server: StartServer, taken: Collector):
    served = start_server(settings=tracing(taken.url))
    assert served.get("/fail", headers={"traceparent": SAMPLED}).status_code == 500
    span = taken.of_trace(TRACE, "http")["http"]
    assert span.status == 2
    assert b"it broke" not in taken.raw


def test_the_callers_decision_not_to_trace_is_respected(start_server: StartServer, taken: Collector):
    served = start_server(settings=tracing(taken.url))
    answer = served.get("/echo", headers={"traceparent": UNSAMPLED, "X-Request-Id": "quiet"})
    assert "traceparent" not in answer.headers
    assert served.get("/livez").status_code == 200
    assert "traceparent" in served.get("/echo", headers={"X-Request-Id": "loud"}).headers
    taken.wait_for(lambda: taken.spans, bool)
    assert [span.attributes["stoa.request_id"] for span in taken.spans] == ["loud"]
    assert "trace_id" not in served.wait_for_line("request", request_id="quiet")


def test_remaining_spans_are_sent_at_the_end(
    start_server: StartServer, taken: Collector, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    served = start_server(settings=tracing(taken.url))
    served.get("/echo", headers={"traceparent": SAMPLED})
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=60) == 0
    assert [span.trace_id for span in taken.spans] == [TRACE]


def test_a_collector_that_refuses_loses_traces_and_nothing_else(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
):
    with socket.socket() as nobody:  # bound, but never listening
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        served = start_server(settings=tracing(url))
        with httpx2.Client(base_url=served.url, timeout=60) as client:
            assert {client.get("/echo").status_code for _ in range(50)} == {200}
            served.wait_for_line("traces_lost")
            assert {client.get("/echo").status_code for _ in range(50)} == {200}
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=60) == 0
    events = [line["event"] for line in served.lines()]
    assert events.count("traces_lost") == 1
    assert not [line for line in served.lines() if line["logger"].startswith("opentelemetry")]


def test_a_collector_that_never_answers_delays_no_request(start_server: StartServer, monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        served = start_server(settings=tracing(url))
        assert {served.get("/echo").status_code for _ in range(20)} == {200}
        connection, _ = silent.accept()
        with connection:
            assert {served.get("/echo").status_code for _ in range(20)} == {200}
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(timeout=60) == 0


def test_nothing_is_traced_if_tracing_is_disabled(start_server: StartServer, taken: Collector):
    served = start_server(settings=tracing(taken.url) | {"TRACING": False})
    answer = served.get("/echo", headers={"traceparent": SAMPLED, "X-Request-Id": "mine"})
    assert "traceparent" not in answer.headers
    assert "trace_id" not in served.wait_for_line("request", request_id="mine")
    assert json.loads(answer.text)["path"] == "/echo"
    assert taken.spans == []


def test_the_collector_is_read_from_opentelemetrys_variables(monkeypatch: pytest.MonkeyPatch):
    assert collector(env) == ""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://everything")
    assert collector(env) == "http://everything"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces")
    assert collector(env) == "http://traces"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(ImproperlyConfigured, match="http/protobuf"):
        collector(env)
