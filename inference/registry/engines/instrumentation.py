"""Metrics and spans of requests to models, from every endpoint and from batches."""

import time
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from django.conf import settings

from inference.engine import (
    EmbeddingRequest,
    EmbeddingResult,
    EngineError,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    GenerationStream,
    HostUnavailable,
    InvalidRequest,
    ScoringRequest,
    ScoringResult,
    TokenizationRequest,
    TokenizationResult,
    Usage,
)
from inference.registry.engines.spans import ModelSpan
from shared.observability.metrics import OTHER, Counter, Histogram
from shared.observability.request_fields import RequestFields, current_fields

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

R = TypeVar("R", EmbeddingResult, ScoringResult)

REASONING_OPTIONS = ("enable_thinking", "reasoning_effort", "thinking")
_COMPLETE = (FinishReason.STOP, FinishReason.LENGTH, FinishReason.TOOL_CALLS)
_labelled_models: set[str] = set()


class ModelEngine(Protocol):
    """The interface of the engines that run models, local or remote. `EngineClient` documents each call.

    Besides, every call raises ApiError MODEL_NOT_FOUND, and ModelNotLoaded only if the request may not load the model.
    """

    async def generate(self, model_id: str, request: GenerationRequest) -> GenerationStream: ...
    async def embed(self, model_id: str, request: EmbeddingRequest) -> EmbeddingResult: ...
    async def score(self, model_id: str, request: ScoringRequest) -> ScoringResult: ...
    async def tokenize(self, model_id: str, request: TokenizationRequest) -> TokenizationResult: ...
    async def detokenize(self, model_id: str, ids: list[int]) -> str: ...


class InstrumentedEngine:
    """An engine whose generations, embeddings and scores are counted, timed and traced."""

    def __init__(self, engine: ModelEngine) -> None:
        self._engine = engine

    async def generate(self, model_id: str, request: GenerationRequest) -> GenerationStream:
        started_at, span = time.monotonic(), ModelSpan()
        try:
            check_template_options(model_id, request)
            with span.activate():
                stream = await self._engine.generate(model_id, span.propagate(request))
        except BaseException as error:
            span.fail(_record_refusal(model_id, error, started_at), error)
            raise
        is_streamed = not request.coalesce_outputs
        GenerationRecorder(_add_label(model_id), started_at, span, is_streamed=is_streamed).follow(stream)
        return stream

    async def embed(self, model_id: str, request: EmbeddingRequest) -> EmbeddingResult:
        return await _record_call(model_id, self._engine.embed(model_id, request))

    async def score(self, model_id: str, request: ScoringRequest) -> ScoringResult:
        return await _record_call(model_id, self._engine.score(model_id, request))

    async def tokenize(self, model_id: str, request: TokenizationRequest) -> TokenizationResult:
        return await self._engine.tokenize(model_id, request)

    async def detokenize(self, model_id: str, ids: list[int]) -> str:
        return await self._engine.detokenize(model_id, ids)


def check_template_options(model_id: str, request: GenerationRequest) -> None:
    """Raise InvalidRequest for an option of the chat template that clients may not set.

    A template is a program of the model: clients set what switches its reasoning, and what the operator lists.
    """
    allowed = {*REASONING_OPTIONS, *settings.TEMPLATE_OPTIONS.get(model_id, ())}
    for name in request.template_options:
        if name not in allowed:
            field = f"chat_template_kwargs.{name}"
            raise InvalidRequest(
                f"`{field}` is not allowed: set {', '.join(sorted(allowed))}, or ask the operator to list it in "
                "STOA_TEMPLATE_OPTIONS.",
                field=field,
            )


class GenerationRecorder:
    """The measurements of one accepted generation. is_streamed: its tokens arrive one by one."""

    def __init__(self, model: str, started_at: float, span: ModelSpan, *, is_streamed: bool) -> None:
        self._model = model
        self._started_at = started_at
        self._span = span
        self._notes = current_fields()  # of this request: the callbacks run in the task that reads the socket
        self._is_streamed = is_streamed
        self._last_token_at: dict[int, float] = {}  # by choice
        self._pending_intervals: list[float] = []
        self._finish_reason = FinishReason.CANCELLED

    def follow(self, stream: GenerationStream) -> None:
        stream.watch(self._record_output)
        stream.add_done_callback(self._record_end)

    def _record_output(self, output: GenerationOutput) -> None:
        now = time.monotonic()
        if output.usage is not None:
            self._finish_reason = output.finish_reason or FinishReason.STOP
        if not self._is_streamed or output.finish_reason in (FinishReason.CANCELLED, FinishReason.ERROR):
            return
        if not self._last_token_at:
            FIRST_TOKEN.observe(now - self._started_at, self._model)
            self._notes.setdefault("first_token_ms", round((now - self._started_at) * 1000, 1))
        if (last := self._last_token_at.get(output.choice)) is not None:
            self._pending_intervals.append(now - last)
            if len(self._pending_intervals) >= MAX_PENDING_INTERVAL_COUNT:
                self._observe_intervals()
        self._last_token_at[output.choice] = now

    def _record_end(self, usage: Usage) -> None:
        self._observe_intervals()
        FINISHED.add(1, self._model, self._finish_reason)
        if self._finish_reason in _COMPLETE:
            LATENCY.observe(time.monotonic() - self._started_at, self._model)
        PROMPT_TOKENS.add(usage.prompt_tokens, self._model)
        CACHED_TOKENS.add(usage.cached_tokens, self._model)
        GENERATED_TOKENS.add(usage.completion_tokens, self._model)
        _record_request(self._model, self._started_at)
        _note_usage(self._notes, self._model, usage)
        self._span.end(self._model, usage, self._finish_reason)

    def _observe_intervals(self) -> None:
        NEXT_TOKEN.observe_all(self._pending_intervals, self._model)
        self._pending_intervals.clear()


async def _record_call(model_id: str, call: Awaitable[R]) -> R:
    """Return the result of a call that generates nothing, and record it."""
    started_at, span = time.monotonic(), ModelSpan()
    try:
        with span.activate():
            result = await call
    except BaseException as error:
        span.fail(_record_refusal(model_id, error, started_at), error)
        raise
    cached_tokens = result.cached_tokens if isinstance(result, ScoringResult) else 0
    model, usage = _add_label(model_id), Usage(result.prompt_tokens, 0, cached_tokens)
    PROMPT_TOKENS.add(usage.prompt_tokens, model)
    CACHED_TOKENS.add(usage.cached_tokens, model)
    _record_request(model, started_at)
    _note_usage(current_fields(), model, usage)
    span.end(model, usage)
    return result


def _record_request(model: str, started_at: float) -> None:
    REQUESTS.add(1, model)
    DURATION.observe(time.monotonic() - started_at, model)


def _note_usage(notes: RequestFields, model: str, usage: Usage) -> None:
    """Add usage to the request's log line. One HTTP request may make several generations."""
    notes["model"] = model
    for name, count in (("prompt_tokens", usage.prompt_tokens), ("completion_tokens", usage.completion_tokens)):
        notes[name] = int(notes.get(name, 0)) + count


def _record_refusal(model_id: str, error: BaseException, started_at: float) -> str:
    """Record a request that failed at once, and return its model label. Ids of missing models get no label."""
    exists = isinstance(error, EngineError) and not isinstance(error, HostUnavailable)
    model = _add_label(model_id) if exists else _label(model_id)
    current_fields()["model"] = model
    _record_request(model, started_at)
    return model


def _add_label(model_id: str) -> str:
    if len(_labelled_models) < MAX_MODEL_LABEL_COUNT:
        _labelled_models.add(model_id)
    return _label(model_id)


def _label(model_id: str) -> str:
    return model_id if model_id in _labelled_models else OTHER
