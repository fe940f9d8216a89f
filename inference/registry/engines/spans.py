"""The span of a request to a model, and the spans of its stages."""

from asyncio import CancelledError
from contextlib import AbstractContextManager
from itertools import pairwise

from msgspec.structs import replace

from inference.engine import (
    ContextLengthExceeded,
    FinishReason,
    GenerationRequest,
    InvalidRequest,
    ModelNotLoaded,
    RequestTimings,
    Usage,
)
from shared.api.errors import ApiError
from shared.observability import tracing

STAGES = ("queue", "prefill", "decode")
_CLIENT_ERRORS = (ApiError, InvalidRequest, ContextLengthExceeded, ModelNotLoaded, CancelledError)


class ModelSpan:
    """The span `inference.<model>`, from the request to the end of the response. It does nothing without tracing."""

    def __init__(self) -> None:
        self._span = tracing.start_span("inference", kind=tracing.SpanKind.CLIENT)

    def activate(self) -> AbstractContextManager[None]:
        """Make this span the parent of requests to a remote server within the block."""
        return tracing.use_span(self._span)

    def propagate(self, request: GenerationRequest) -> GenerationRequest:
        """Return the request with this span as its parent."""
        if self._span is None:
            return request
        return replace(request, traceparent=tracing.propagation_headers(self._span)["traceparent"])

    def end(self, model: str, usage: Usage, reason: FinishReason | None = None) -> None:
        """End the span after a response. model: a metrics label, the model's id or `other`."""
        if self._span is None:
            return
        if usage.timings:
            _add_stage_spans(self._span, usage.timings)
        attributes: dict[str, str | int] = {
            "gen_ai.usage.input_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage.completion_tokens,
        }
        if reason:
            attributes["gen_ai.response.finish_reason"] = reason
        self._end(model, attributes, failed=reason is FinishReason.ERROR)

    def fail(self, model: str, error: BaseException) -> None:
        """End the span of a request without a response."""
        self._end(model, {"error.type": type(error).__name__}, failed=not isinstance(error, _CLIENT_ERRORS))

    def _end(self, model: str, attributes: dict[str, str | int], *, failed: bool) -> None:
        if self._span is not None:
            self._span.update_name(f"inference.{model}")
            tracing.end_span(self._span, {"gen_ai.request.model": model, **attributes}, failed=failed)


def _add_stage_spans(span: tracing.Span, timings: RequestTimings) -> None:
    """Add a span for each stage that was reached: a request that was cancelled in the queue has no decode."""
    times = [timings.arrived_at, timings.scheduled_at, timings.prefilled_at, timings.finished_at]
    for name, (started_at, ended_at) in zip(STAGES, pairwise(times), strict=True):
        if started_at is not None:
            tracing.record_span(span, name, started_at, timings.finished_at if ended_at is None else ended_at)
