"""GET /traces of a running server with fake models and a worker, and the spans that a collector receives."""

import asyncio
import json
import secrets
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx2
import pytest

from tests.inference.batches.workers import running_worker, submit_batch, wait_until_ended
from tests.inference.running_server import (
    RunningServer,
    run_commands,
    running_server_with_fake_models,
)
from tests.inference.websocket_client import authenticated_websocket, receive_until, send_messages
from tests.otlp import Collector, running_collector
from tests.webhook_receivers import Receiver, respond_with, running_receiver

SPOKEN = {"model": "talker", "prompt": "hello", "max_tokens": 4}
CALLER = "b7ad6b7169203331"  # the client's span


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with running_receiver(respond_with(204, body=b"")) as receiver:
        yield receiver


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def traced(receiver: Receiver, collector: Collector) -> Iterator[RunningServer]:
    """A server whose traces only this module creates."""
    extra = collector.environment | {"STOA_WEBHOOK_ALLOW": receiver.authority}
    with running_server_with_fake_models(extra=extra) as stoa:
        yield stoa


def read(stoa: RunningServer, role: str = "SUPER_ADMIN", **query: Any) -> list[dict[str, Any]]:
    answer = httpx2.get(f"{stoa.url}/traces", params=query, headers=stoa.headers(role), timeout=30)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["traces"])


def eventually(stoa: RunningServer, *names: str, **query: Any) -> dict[str, dict[str, Any]]:
    """Wait for these spans, and return all spans by name."""
    deadline = time.monotonic() + 60
    while True:
        found = {span["operation_name"]: span for span in read(stoa, **query)}
        if set(names) <= set(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def ask(stoa: RunningServer, path: str, body: object, role: str = "SUPER_ADMIN") -> tuple[str, httpx2.Response]:
    """Send a request within a new trace; return the trace id and the response."""
    trace_id = secrets.token_hex(16)
    headers = stoa.headers(role) | {"traceparent": f"00-{trace_id}-{CALLER}-01"}
    return trace_id, httpx2.post(stoa.url + path, json=body, headers=headers, timeout=30)


def inside(part: dict[str, Any], whole: dict[str, Any]) -> bool:
    return part["parent_span_id"] == whole["span_id"] and part["start_time"] >= whole["start_time"]


def test_a_request_has_spans_of_its_model_and_stages(traced: RunningServer, collector: Collector):
    trace_id, answer = ask(traced, "/inference", SPOKEN)
    assert answer.status_code == 200
    names = ["http", "inference.talker", "queue", "prefill", "decode"]
    spans = eventually(traced, *names, trace_id=trace_id)
    assert sorted(spans) == sorted(names)
    http, model = spans["http"], spans["inference.talker"]
    assert answer.headers["traceparent"] == f"00-{trace_id}-{http['span_id']}-01"
    assert http["parent_span_id"] == CALLER
    assert inside(model, http)
    assert all(inside(spans[name], model) for name in ("queue", "prefill", "decode"))
    assert {span["trace_id"] for span in spans.values()} == {f"trace_{trace_id}"}
    assert {span["status"] for span in spans.values()} == {"ok"}
    assert {span["request_id"] for span in spans.values()} == {answer.headers["x-request-id"]}
    assert len({span["user"] for span in spans.values()}) == 1
    assert http["attributes"] == {
        "http.request.method": "POST",
        "http.route": "/inference",
        "http.response.status_code": 200,
    }
    assert model["attributes"] == {
        "gen_ai.request.model": "talker",
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.response.finish_reason": "length",
    }
    sent = collector.of_trace(trace_id, *names)
    assert {name: span.span_id for name, span in sent.items()} == {
        name: span["span_id"] for name, span in spans.items()
    }


def test_spans_have_their_fields_and_types_newest_first(traced: RunningServer):
    ask(traced, "/inference", SPOKEN)
    eventually(traced, "decode")
    spans = read(traced)
    for span in spans:
        told = (span["trace_id"], span["span_id"], span["operation_name"], span["start_time"], span["status"])
        assert all(isinstance(value, str) and value for value in told)
        assert type(span["duration_ms"]) is int
        assert span["duration_ms"] >= 0
        assert datetime.fromisoformat(span["start_time"]).utcoffset() is not None
    started = [span["start_time"] for span in spans]
    assert started == sorted(started, reverse=True)


def test_a_stream_is_a_child_span_and_the_model_process_joins_the_trace(traced: RunningServer):
    trace_id, answer = ask(traced, "/inference/stream", SPOKEN | {"prompt": "whence", "max_tokens": 1})
    spans = eventually(traced, "http", "stream", "inference.talker", trace_id=trace_id)
    assert inside(spans["stream"], spans["http"])
    model = spans["inference.talker"]["span_id"]
    assert json.loads(answer.text.splitlines()[0].removeprefix("data: "))["token"] == f"00-{trace_id}-{model}-01"


def test_a_model_process_gets_no_unsampled_trace(traced: RunningServer):
    headers = traced.headers() | {"traceparent": f"00-{secrets.token_hex(16)}-{CALLER}-00"}
    body = SPOKEN | {"prompt": "whence", "max_tokens": 1}
    answer = httpx2.post(f"{traced.url}/inference", json=body, headers=headers, timeout=30).json()
    assert answer["choices"][0]["text"] == "None"


def test_a_websocket_inference_is_a_trace(traced: RunningServer):
    async def talk() -> None:
        async with authenticated_websocket(traced) as client:
            await send_messages(client, {"type": "inference", "id": "1", **SPOKEN})
            await receive_until(client, "complete")

    asyncio.run(talk())
    root = eventually(traced, "websocket")["websocket"]
    assert root["parent_span_id"] is None
    spans = eventually(traced, "websocket", "stream", "inference.talker", "decode", trace_id=root["trace_id"])
    assert inside(spans["stream"], root)
    assert inside(spans["inference.talker"], root)


def test_embeddings_are_traced(traced: RunningServer):
    trace_id, _ = ask(traced, "/embeddings", {"model": "embedder", "input": ["a", "bc"]})
    spans = eventually(traced, "http", "inference.embedder", trace_id=trace_id)
    assert inside(spans["inference.embedder"], spans["http"])


def test_a_tool_of_mcp_is_traced_as_its_route_is(traced: RunningServer):
    arguments = {"model": "talker", "prompt": "hello", "max_tokens": 4}
    params = {"name": "generate_text", "arguments": arguments}
    trace_id, answer = ask(traced, "/mcp", {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    assert answer.json()["result"]["isError"] is False

    names = ["http", "inference.talker", "queue", "prefill", "decode"]
    spans = eventually(traced, *names, trace_id=trace_id)
    assert sorted(spans) == sorted(names)
    assert inside(spans["inference.talker"], spans["http"])
    assert spans["http"]["attributes"]["http.route"] == "/mcp"
    assert spans["inference.talker"]["attributes"]["gen_ai.usage.output_tokens"] == 4
    assert {span["request_id"] for span in spans.values()} == {answer.headers["x-request-id"]}


def test_requests_of_a_batch_and_its_webhook_are_traced(traced: RunningServer, receiver: Receiver):
    with running_worker(traced):
        batch_id = submit_batch(traced, "speak", webhook_url=receiver.url)
        assert wait_until_ended(traced, batch_id)["completed"] == 1
        item = eventually(traced, f"batch.{batch_id}", operation_name=f"batch.{batch_id}")[f"batch.{batch_id}"]
        spans = eventually(traced, "inference.talker", "queue", trace_id=item["trace_id"])
        webhook = eventually(traced, "webhook", operation_name="webhook")["webhook"]
    assert inside(spans["inference.talker"], item)
    assert item["parent_span_id"] is None
    assert webhook["attributes"] == {"stoa.attempt": 1, "stoa.outcome": "delivered"}
    told = webhook["trace_id"].removeprefix("trace_")
    assert receiver.received[-1].headers["traceparent"] == f"00-{told}-{webhook['span_id']}-03"  # sampled, and random


def test_failures_are_error_spans_and_invalid_requests_are_not(traced: RunningServer):
    late, _ = ask(traced, "/inference", SPOKEN | {"prompt": "silence", "timeout": 1})
    spans = eventually(traced, "http", "inference.talker", trace_id=late)
    assert {spans["http"]["status"], spans["inference.talker"]["status"]} == {"error"}
    wrong, _ = ask(traced, "/inference", SPOKEN | {"prompt": "long"})
    spans = eventually(traced, "http", "inference.talker", trace_id=wrong)
    assert {spans["http"]["status"], spans["inference.talker"]["status"]} == {"ok"}
    assert spans["inference.talker"]["attributes"]["error.type"] == "ContextLengthExceeded"


def test_filters_and_limit_select_spans(traced: RunningServer):
    first, answer = ask(traced, "/inference", SPOKEN)
    late, _ = ask(traced, "/inference", SPOKEN | {"prompt": "silence", "timeout": 1})
    eventually(traced, "http", "inference.talker", trace_id=first)
    eventually(traced, "http", "inference.talker", trace_id=late)
    assert len(read(traced, limit=2)) == 2
    assert {span["trace_id"] for span in read(traced, trace_id=f"trace_{first}")} == {f"trace_{first}"}
    assert {span["operation_name"] for span in read(traced, operation_name="queue")} == {"queue"}
    failed = read(traced, status="error")
    assert {span["status"] for span in failed} == {"error"}
    assert f"trace_{late}" in {span["trace_id"] for span in failed}
    assert f"trace_{first}" not in {span["trace_id"] for span in failed}
    assert len(read(traced, request_id=answer.headers["x-request-id"])) == 5
    both = read(traced, trace_id=first, operation_name="http")
    assert [span["operation_name"] for span in both] == ["http"]
    assert read(traced, trace_id=secrets.token_hex(16)) == []


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "status=lost", "since=1", "limit=1&limits=2"])
def test_an_invalid_filter_is_named(traced: RunningServer, query: str):
    answer = traced.get(f"/traces?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")


def test_o2_metrics_or_traces_need_their_permission(traced: RunningServer):
    for role, status in {"": 401, "CUSTOMER": 403, "STAFF": 403, "STORE_OWNER": 403, "READER": 403}.items():
        headers = traced.headers(role) if role else {}
        answer = httpx2.get(f"{traced.url}/traces", headers=headers, timeout=30)
        assert answer.status_code == status, role
        assert "span_id" not in answer.text


def test_a_user_with_read_traces_sees_their_own(traced: RunningServer):
    """A super admin's key with `read_traces` only cannot see the traces of others."""
    mine, _ = ask(traced, "/inference", SPOKEN)
    others, _ = ask(traced, "/inference", SPOKEN, role="STAFF")
    user = eventually(traced, "http", trace_id=mine)["http"]["user"]
    assert eventually(traced, "http", trace_id=others)["http"]["user"] != user
    [made] = run_commands(traced.environment, ["keys", "create", str(user), "mine", "--permission", "read_traces"])
    traced.keys["TRACES"] = made.stdout.strip()
    told = read(traced, role="TRACES", limit=1000)
    assert {span["user"] for span in told} == {user}
    assert f"trace_{mine}" in {span["trace_id"] for span in told}
    assert read(traced, role="TRACES", trace_id=others) == []


def test_anonymous_spans_are_exported_but_not_stored(traced: RunningServer, collector: Collector):
    trace_id = secrets.token_hex(16)
    headers = {"traceparent": f"00-{trace_id}-{CALLER}-01", "Authorization": "Bearer nobody"}
    assert httpx2.get(f"{traced.url}/models", headers=headers, timeout=30).status_code == 401
    assert collector.of_trace(trace_id, "http")["http"].attributes["http.response.status_code"] == 401
    mine, _ = ask(traced, "/inference", SPOKEN)
    eventually(traced, "http", trace_id=mine)  # earlier spans have been exported by now, or never will be
    assert read(traced, trace_id=trace_id) == []


def test_a_log_line_has_ids_model_and_token_counts(traced: RunningServer):
    trace_id, answer = ask(traced, "/inference", SPOKEN)
    line = line_of(traced, answer.headers["x-request-id"])
    assert line["trace_id"] == trace_id
    told = {name: line[name] for name in ("event", "method", "path", "status", "model")}
    assert told == {"event": "request", "method": "POST", "path": "/inference", "status": 200, "model": "talker"}
    assert (line["prompt_tokens"], line["completion_tokens"]) == (5, 4)
    assert 0 < line["first_token_ms"] <= line["duration_ms"]
    assert isinstance(line["user_id"], int)
    assert isinstance(line["api_key_id"], int)


def line_of(stoa: RunningServer, request_id: str) -> dict[str, Any]:
    """Return the log line of a request, which is written after the response."""
    deadline = time.monotonic() + 60
    while True:
        lines = [json.loads(line) for line in stoa.log.read_text().splitlines() if request_id in line]
        if lines:
            assert len(lines) == 1
            return dict(lines[0])
        assert time.monotonic() < deadline
        time.sleep(0.05)
