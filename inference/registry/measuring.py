"""What engines are asked and how they answer, counted and traced for every surface and for batches alike."""

import time
from typing import Protocol

from inference.engine import (
    EmbeddingRequest,
    EmbeddingResult,
    EngineError,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    GenerationStream,
    HostUnavailable,
    Usage,
)
from inference.registry.model_spans import ModelSpan
from shared.observability.metrics import OTHER, Counter, Histogram
from shared.observability.request_notes import Notes, current_notes

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5)
MOST_KNOWN = 200  # models that come and go by their own name; past that they are `other`
NOTED_AT_ONCE = 64  # pauses between tokens: one by one would cost more than the token's way out

REQUESTS = Counter(
    "stoa_inference_requests_total", "Requests that models were asked, whatever became of them.", "model"
)
DURATION = Histogram(
    "stoa_inference_duration_seconds", "From when a model was asked until its answer's end.", "model", buckets=SECONDS
)
LATENCY = Histogram(
    "stoa_e2e_request_latency_seconds", "The same for generations that were whole.", "model", buckets=SECONDS
)
FIRST_TOKEN = Histogram(
    "stoa_time_to_first_token_seconds",
    "From when a model was asked until its first token; not of batches.",
    "model",
    buckets=SECONDS,
)
NEXT_TOKEN = Histogram(
    "stoa_inter_token_latency_seconds",
    "Between two tokens of one text; not of batches.",
    "model",
    buckets=TOKEN_SECONDS,
)
ENDED = Counter("stoa_request_success_total", "Generations that ended, by why they did.", "model", "finished_reason")
PROMPT_TOKENS = Counter("stoa_prompt_tokens_total", "Tokens of prompts and of texts to embed.", "model")
CACHED_TOKENS = Counter("stoa_prompt_tokens_cached_total", "Those of them that were in the cache.", "model")
GENERATED_TOKENS = Counter("stoa_generation_tokens_total", "Tokens that were generated.", "model")

_WHOLE = (FinishReason.STOP, FinishReason.LENGTH, FinishReason.TOOL_CALLS)
_known: set[str] = set()


class Engine(Protocol):
    """What answers for models, wherever they run. EngineClient says what each call returns and raises.

    Beside that, every call raises ApiError MODEL_NOT_FOUND, and ModelNotLoaded only where asking cannot load it.
    """

    async def generate(self, model_id: str, request: GenerationRequest) -> GenerationStream: ...
    async def embed(self, model_id: str, request: EmbeddingRequest) -> EmbeddingResult: ...
    async def tokenize(self, model_id: str, text: str) -> list[int]: ...
    async def detokenize(self, model_id: str, ids: list[int]) -> str: ...


class MeasuredEngine:
    """An engine, and the numbers and spans of what it is asked."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def generate(self, model_id: str, request: GenerationRequest) -> GenerationStream:
        began, span = time.monotonic(), ModelSpan()
        try:
            with span.asking():
                stream = await self._engine.generate(model_id, span.on(request))
        except BaseException as error:
            span.refused(_note_refused(model_id, error, began), error)
            raise
        measurement = _Measurement(_known_label(model_id), began, span, has_tokens=not request.gathered)
        measurement.follow(stream)
        return stream

    async def embed(self, model_id: str, request: EmbeddingRequest) -> EmbeddingResult:
        began, span = time.monotonic(), ModelSpan()
        try:
            with span.asking():
                result = await self._engine.embed(model_id, request)
        except BaseException as error:
            span.refused(_note_refused(model_id, error, began), error)
            raise
        model, usage = _known_label(model_id), Usage(result.prompt_tokens, 0)
        PROMPT_TOKENS.add(result.prompt_tokens, model)
        _note_asked(model, began)
        _note_used(current_notes(), model, usage)
        span.end(model, usage)
        return result

    async def tokenize(self, model_id: str, text: str) -> list[int]:
        return await self._engine.tokenize(model_id, text)

    async def detokenize(self, model_id: str, ids: list[int]) -> str:
        return await self._engine.detokenize(model_id, ids)


class _Measurement:
    """One generation, from when it was accepted to its end. has_tokens: they come one by one."""

    def __init__(self, model: str, began: float, span: ModelSpan, *, has_tokens: bool) -> None:
        self._model = model
        self._began = began
        self._span = span
        self._notes = current_notes()  # of the request: its end is told by whatever task reads the socket
        self._has_tokens = has_tokens
        self._came_at: dict[int, float] = {}  # the last token, by choice
        self._pauses: list[float] = []
        self._reason = FinishReason.CANCELLED

    def follow(self, stream: GenerationStream) -> None:
        stream.watch(self._note)
        stream.when_finished(self._end)

    def _note(self, output: GenerationOutput) -> None:
        now = time.monotonic()
        if output.usage is not None:
            self._reason = output.finish_reason or FinishReason.STOP
        if not self._has_tokens or output.finish_reason in (FinishReason.CANCELLED, FinishReason.ERROR):
            return
        if not self._came_at:
            FIRST_TOKEN.observe(now - self._began, self._model)
            self._notes.setdefault("first_token_ms", round((now - self._began) * 1000, 1))
        if (last := self._came_at.get(output.choice)) is not None:
            self._pauses.append(now - last)
            if len(self._pauses) >= NOTED_AT_ONCE:
                self._note_pauses()
        self._came_at[output.choice] = now

    def _end(self, usage: Usage) -> None:
        self._note_pauses()
        ENDED.add(1, self._model, self._reason)
        if self._reason in _WHOLE:
            LATENCY.observe(time.monotonic() - self._began, self._model)
        PROMPT_TOKENS.add(usage.prompt_tokens, self._model)
        CACHED_TOKENS.add(usage.cached_tokens, self._model)
        GENERATED_TOKENS.add(usage.completion_tokens, self._model)
        _note_asked(self._model, self._began)
        _note_used(self._notes, self._model, usage)
        self._span.end(self._model, usage, self._reason)

    def _note_pauses(self) -> None:
        NEXT_TOKEN.observe_all(self._pauses, self._model)
        self._pauses.clear()


def _note_asked(model: str, began: float) -> None:
    REQUESTS.add(1, model)
    DURATION.observe(time.monotonic() - began, model)


def _note_used(notes: Notes, model: str, usage: Usage) -> None:
    """For the request's log line: a request may ask several times."""
    notes["model"] = model
    for name, count in (("prompt_tokens", usage.prompt_tokens), ("completion_tokens", usage.completion_tokens)):
        notes[name] = int(notes.get(name, 0)) + count


def _note_refused(model_id: str, error: BaseException, began: float) -> str:
    """Answers the label: a name that no model has is none."""
    exists = isinstance(error, EngineError) and not isinstance(error, HostUnavailable)
    model = _known_label(model_id) if exists else _label(model_id)
    current_notes()["model"] = model
    _note_asked(model, began)
    return model


def _known_label(model_id: str) -> str:
    if len(_known) < MOST_KNOWN:
        _known.add(model_id)
    return _label(model_id)


def _label(model_id: str) -> str:
    return model_id if model_id in _known else OTHER
