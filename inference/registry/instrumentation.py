"""Metrics and spans of requests to models, from every endpoint and from batches."""

import time
from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from msgspec.structs import replace

from inference.engine import (
    ContextLengthExceeded,
    EngineError,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    GenerationStream,
    HostUnavailable,
    InvalidRequest,
    ModelNotLoaded,
    RequestTimings,
    Usage,
)
from shared.api.errors import ApiError
from shared.observability import tracing
from shared.observability.metrics import OTHER, Counter, Histogram
from shared.observability.request_fields import current_fields

DURATION_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
TOKEN_LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5)
MAX_MODEL_LABEL_COUNT = 200  # further models are labelled `other`
MAX_PENDING_INTERVAL_COUNT = 64  # intervals between tokens are observed in groups: one by one costs too much

REQUESTS = Counter("stoa_inference_requests_total", "Requests to models, whatever their result.", "model")
DURATION = Histogram(
    "stoa_inference_duration_seconds",
    "Time from a request to a model until the end of its response.",
    "model",
    buckets=DURATION_BUCKETS,
)
LATENCY = Histogram(
    "stoa_e2e_request_latency_seconds",
    "Time from a request to a model until the end of a complete generation.",
    "model",
    buckets=DURATION_BUCKETS,
)
FIRST_TOKEN = Histogram(
    "stoa_time_to_first_token_seconds",
    "Time from a request to a model until its first token. Excludes batches.",
    "model",
    buckets=DURATION_BUCKETS,
)
NEXT_TOKEN = Histogram(
    "stoa_inter_token_latency_seconds",
    "Time between two tokens of one choice. Excludes batches.",
    "model",
    buckets=TOKEN_LATENCY_BUCKETS,
)
FINISHED = Counter(
    "stoa_request_success_total", "Generations that ended, by finish reason.", "model", "finished_reason"
)
PROMPT_TOKENS = Counter("stoa_prompt_tokens_total", "Tokens of prompts and of texts to embed or to score.", "model")
CACHED_TOKENS = Counter("stoa_prompt_tokens_cached_total", "Prompt tokens from the prefix cache.", "model")
GENERATED_TOKENS = Counter("stoa_generation_tokens_total", "Generated tokens.", "model")

STAGES = ("queue", "prefill", "decode")
_COMPLETE = (FinishReason.STOP, FinishReason.LENGTH, FinishReason.TOOL_CALLS)
_CLIENT_ERRORS = (ApiError, InvalidRequest, ContextLengthExceeded, ModelNotLoaded, CancelledError)
_labelled_models: set[str] = set()


@contextmanager
def record_request(model_id: str) -> Iterator["RequestRecorder"]:
    """Record a request to a model. The block sends it, and an exception from it ends the record."""
    recorder = RequestRecorder(model_id)
    try:
        with tracing.use_span(recorder.span):
            yield recorder
    except BaseException as error:
        recorder.fail(error)
        raise


class RequestRecorder:
    """The measurements of one request, and its span `inference.<model>`. A response ends in `follow` or `finish`."""

    def __init__(self, model_id: str) -> None:
        self.span = tracing.start_span("inference", kind=tracing.SpanKind.CLIENT)
        self._model_id = model_id
        self._started_at = time.monotonic()
        self._notes = current_fields()  # of this request: callbacks run in the task that reads the socket
        self._last_token_at: dict[int, float] = {}  # by choice
        self._pending_intervals: list[float] = []
        self._finish_reason = FinishReason.CANCELLED

    def propagate(self, request: GenerationRequest) -> GenerationRequest:
        """Return the request with this span as its parent."""
        if self.span is None:
            return request
        return replace(request, traceparent=tracing.propagation_headers(self.span)["traceparent"])

    def follow(self, stream: GenerationStream, *, is_streamed: bool) -> None:
        """Record an accepted generation to its end. is_streamed: its tokens arrive one by one."""
        model = _add_label(self._model_id)

        def record_output(output: GenerationOutput) -> None:
            if output.usage is not None:
                self._finish_reason = output.finish_reason or FinishReason.STOP
            if is_streamed and output.finish_reason not in (FinishReason.CANCELLED, FinishReason.ERROR):
                self._record_token(output.choice, model)

        stream.watch(record_output)
        stream.add_done_callback(self._finish_generation)

    def finish(self, usage: Usage, reason: FinishReason | None = None) -> None:
        """Record the end of a response. reason: of a generation."""
        model = _add_label(self._model_id)
        PROMPT_TOKENS.add(usage.prompt_tokens, model)
        CACHED_TOKENS.add(usage.cached_tokens, model)
        self._record_duration(model)
        for name, count in (("prompt_tokens", usage.prompt_tokens), ("completion_tokens", usage.completion_tokens)):
            self._notes[name] = int(self._notes.get(name, 0)) + count  # one HTTP request may make several generations
        if self.span and usage.timings:
            _add_stage_spans(self.span, usage.timings)
        attributes: dict[str, str | int] = {
            "gen_ai.usage.input_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage.completion_tokens,
        }
        attributes |= {"gen_ai.response.finish_reason": reason} if reason else {}
        self._end_span(model, attributes, failed=reason is FinishReason.ERROR)

    def fail(self, error: BaseException) -> None:
        """Record a request without a response. Ids of missing models get no label."""
        exists = isinstance(error, EngineError) and not isinstance(error, HostUnavailable)
        model = _add_label(self._model_id) if exists else _label(self._model_id)
        self._record_duration(model)
        attributes: dict[str, str | int] = {"error.type": type(error).__name__}
        self._end_span(model, attributes, failed=not isinstance(error, _CLIENT_ERRORS))

    def _finish_generation(self, usage: Usage) -> None:
        model = _add_label(self._model_id)
        self._observe_intervals(model)
        FINISHED.add(1, model, self._finish_reason)
        if self._finish_reason in _COMPLETE:
            LATENCY.observe(time.monotonic() - self._started_at, model)
        GENERATED_TOKENS.add(usage.completion_tokens, model)
        self.finish(usage, self._finish_reason)

    def _record_token(self, choice: int, model: str) -> None:
        now = time.monotonic()
        if not self._last_token_at:
            FIRST_TOKEN.observe(now - self._started_at, model)
            self._notes.setdefault("first_token_ms", round((now - self._started_at) * 1000, 1))
        if (last := self._last_token_at.get(choice)) is not None:
            self._pending_intervals.append(now - last)
            if len(self._pending_intervals) >= MAX_PENDING_INTERVAL_COUNT:
                self._observe_intervals(model)
        self._last_token_at[choice] = now

    def _observe_intervals(self, model: str) -> None:
        NEXT_TOKEN.observe_all(self._pending_intervals, model)
        self._pending_intervals.clear()

    def _record_duration(self, model: str) -> None:
        self._notes["model"] = model
        REQUESTS.add(1, model)
        DURATION.observe(time.monotonic() - self._started_at, model)

    def _end_span(self, model: str, attributes: dict[str, str | int], *, failed: bool) -> None:
        if self.span is not None:
            self.span.update_name(f"inference.{model}")
            tracing.end_span(self.span, {"gen_ai.request.model": model, **attributes}, failed=failed)


def _add_stage_spans(span: tracing.Span, timings: RequestTimings) -> None:
    """Add a span for each stage that was reached: a request that was cancelled in the queue has no decode."""
    times = [timings.arrived_at, timings.scheduled_at, timings.prefilled_at, timings.finished_at]
    for name, (started_at, ended_at) in zip(STAGES, pairwise(times), strict=True):
        if started_at is not None:
            tracing.record_span(span, name, started_at, timings.finished_at if ended_at is None else ended_at)


def _add_label(model_id: str) -> str:
    if len(_labelled_models) < MAX_MODEL_LABEL_COUNT:
        _labelled_models.add(model_id)
    return _label(model_id)


def _label(model_id: str) -> str:
    return model_id if model_id in _labelled_models else OTHER
