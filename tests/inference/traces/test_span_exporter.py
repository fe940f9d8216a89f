"""The exporter to the database: stored spans, retention and maximum."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult

from inference.traces import span_exporter
from inference.traces.models import Span
from inference.traces.span_exporter import DatabaseSpanExporter, delete_old_spans
from shared.accounts.authentication import Principal
from shared.accounts.models import User
from shared.accounts.roles import ROLE_PERMISSIONS, Permission, Role
from shared.accounts.services import create_user
from shared.observability import tracing
from shared.observability.request_fields import bind_fields
from shared.observability.request_id import bind_request_id

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return make_user("ada")


def make_user(name: str) -> User:
    now = timezone.now()
    return create_user(
        email=f"{name}@example.com", name=name, password="a lamp for every room", role=Role.SUPER_ADMIN, now=now
    )


@pytest.fixture
def traced() -> Iterator[None]:
    """Export spans to the database when they end."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(DatabaseSpanExporter()))
    tracing.set_tracer(provider.get_tracer("test"))
    yield
    tracing.set_tracer(None)


def span(user: User, **fields: Any) -> Span:
    told = {"trace_id": "a" * 32, "span_id": "b" * 16, "operation_name": "http", "started_at": timezone.now()}
    return Span.objects.create(**{"user": user, "duration_ms": 1, "status": "ok"} | told | fields)


@pytest.mark.usefixtures("traced")
def test_spans_of_users_are_stored_with_their_fields(user: User):
    with bind_request_id("req_1"), bind_fields(user_id=user.pk), tracing.trace_request("http") as root:
        part = tracing.start_span("stream")
        tracing.end_span(part, {"answer": 42}, failed=True)
        tracing.annotate_span(root, {"http.route": "/inference"})
    stream, http = Span.objects.order_by("pk")
    assert (http.operation_name, http.status, http.attributes) == ("http", "ok", {"http.route": "/inference"})
    assert (stream.operation_name, stream.status, stream.attributes) == ("stream", "error", {"answer": 42})
    assert (http.parent_span_id, stream.parent_span_id) == ("", http.span_id)
    assert stream.trace_id == http.trace_id
    assert {http.request_id, stream.request_id} == {"req_1"}
    assert {http.user_id, stream.user_id} == {user.pk}


@pytest.mark.usefixtures("traced")
def test_anonymous_spans_are_not_stored():
    with bind_fields(), tracing.trace_request("http"):
        tracing.end_span(tracing.start_span("stream"))
    assert Span.objects.count() == 0


@pytest.mark.usefixtures("traced")
def test_o3_no_span_has_the_message_of_an_exception(user: User):
    with (
        pytest.raises(ValueError, match="canary"),
        bind_fields(user_id=user.pk),
        tracing.trace_request("http"),
        tracing.use_span(tracing.start_span("inference")),
    ):
        raise ValueError("canary")
    assert "canary" not in str(list(Span.objects.values()))
    assert Span.objects.count() == 1


def test_an_untraced_process_does_nothing():
    with tracing.trace_request("http") as root:
        part = tracing.start_span("stream", alone=True)
        assert (root, part, tracing.propagation_headers(), tracing.current_trace_id()) == (None, None, {}, "")
        tracing.end_span(part)


def test_an_unavailable_database_loses_only_traces(monkeypatch: pytest.MonkeyPatch):
    def away(spans: object) -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(span_exporter, "save_spans", away)
    assert DatabaseSpanExporter().export([]) is SpanExportResult.FAILURE


def test_spans_of_a_day_ago_are_neither_listed_nor_stored(user: User):
    now = timezone.now()
    old = span(user, started_at=now - timedelta(days=1, seconds=1))
    young = span(user, started_at=now - timedelta(hours=23))
    assert list(Span.objects.recent(now)) == [young]
    assert old in Span.objects.all()
    assert delete_old_spans(now=now) == 1
    assert delete_old_spans(now=now) == 0
    assert list(Span.objects.all()) == [young]


def test_spans_above_the_maximum_are_deleted(user: User, settings: Any, monkeypatch: pytest.MonkeyPatch):
    settings.MAX_TRACE_SPANS = 3
    monkeypatch.setattr(span_exporter, "MAX_DELETED_PER_RUN", 4)
    spans = [span(user) for _ in range(10)]
    assert forgotten(timezone.now()) == 7
    assert list(Span.objects.order_by("pk")) == spans[-3:]


def forgotten(now: datetime) -> int:
    return sum(iter(lambda: delete_old_spans(now=now), 0))


def test_users_see_their_own_spans_and_model_managers_all(user: User):
    mine, others = span(user), span(make_user("eve"))
    reader = Principal(user=user, permissions=frozenset({Permission.READ_TRACES}))
    manager = Principal(user=user, permissions=frozenset(ROLE_PERMISSIONS[Role.SUPER_ADMIN]))
    assert set(Span.objects.for_principal(reader)) == {mine}
    assert set(Span.objects.for_principal(manager)) == {mine, others}
