"""The span of what a model is asked, and of its stages, where the request is traced."""

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
    Stages,
    Usage,
)
from shared.api.errors import ApiError
from shared.observability import tracing

STAGES = ("queue", "prefill", "decode")
_ASKED_WRONGLY = (ApiError, InvalidRequest, ContextLengthExceeded, ModelNotLoaded, CancelledError)


class ModelSpan:
    """`inference.<model>` from when the model is asked to the end of its answer; nothing where nothing is traced."""

    def __init__(self) -> None:
        self._span = tracing.start("inference", kind=tracing.SpanKind.CLIENT)

    def asking(self) -> AbstractContextManager[None]:
        """Around the asking: what another server is told belongs to this span."""
        return tracing.within(self._span)

    def on(self, request: GenerationRequest) -> GenerationRequest:
        """The request as a part of this span."""
        if self._span is None:
            return request
        return replace(request, traceparent=tracing.headers(self._span)["traceparent"])

    def end(self, model: str, usage: Usage, reason: FinishReason | None = None) -> None:
        """Its answer has ended. `model`: a name that some model has, or `other`."""
        if self._span is None:
            return
        if usage.stages:
            _tell_stages(self._span, usage.stages)
        told: dict[str, str | int] = {
            "gen_ai.usage.input_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage.completion_tokens,
        }
        if reason:
            told["gen_ai.response.finish_reason"] = reason
        self._finish(model, told, failed=reason is FinishReason.ERROR)

    def refused(self, model: str, error: BaseException) -> None:
        """The model gave no answer, for this reason."""
        self._finish(model, {"error.type": type(error).__name__}, failed=not isinstance(error, _ASKED_WRONGLY))

    def _finish(self, model: str, told: dict[str, str | int], *, failed: bool) -> None:
        if self._span is not None:
            self._span.update_name(f"inference.{model}")
            tracing.end(self._span, {"gen_ai.request.model": model, **told}, failed=failed)


def _tell_stages(span: tracing.Span, stages: Stages) -> None:
    """What it never came to is not told: who was cancelled in the queue has no decode."""
    ends = [stages.asked_at, stages.started_at, stages.prefilled_at, stages.ended_at]
    for name, (began, ended) in zip(STAGES, pairwise(ends), strict=True):
        if began is not None:
            tracing.part(span, name, began, stages.ended_at if ended is None else ended)
