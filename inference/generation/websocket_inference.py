"""One inference on a socket: asked as every surface asks, told in frames."""

import time
from collections.abc import Callable

import structlog
from msgspec import UNSET

from inference.access.responses import problem_from_engine_error
from inference.engine import EngineError, FinishReason, GenerationOutput, GenerationStream, InferenceFailed, Usage
from inference.generation import services
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import error_from_output
from inference.protocol.logprobs import choice_logprobs
from inference.protocol.native.websocket import (
    CompleteMessage,
    InferenceMessage,
    ServerMessage,
    TokenMessage,
    build_completed_choice,
)
from inference.protocol.token_usage import TokenUsage as WireUsage
from shared.accounts.authentication import Principal
from shared.api.errors import ApiError, Problem
from shared.observability import tracing

logger = structlog.get_logger(__name__)

Tell = Callable[[ServerMessage], None]


class WebSocketInference:
    """Tells every token and the end through `tell`. Raises ApiError for what goes wrong, before or in mid stream."""

    def __init__(self, frame: InferenceMessage, tell: Tell) -> None:
        self._frame = frame
        self._tell = tell
        self._began = time.monotonic()
        self._choices = [GeneratedChoice(index) for index in range(frame.body.n)]
        self._tokens = 0
        self._prompt_tokens = 0

    async def run(self, caller: Principal) -> FinishReason:
        """The first choice's finish reason, once the end was told."""
        body = self._frame.body
        try:
            request = self._frame.generation_request(services.new_id("inf_"))
            async with await services.start_stream(caller=caller, model_id=body.model, request=request) as outputs:
                return await self._read(outputs)
        except EngineError as error:
            raise _api_error(problem_from_engine_error(error)) from error

    async def _read(self, outputs: GenerationStream) -> FinishReason:
        self._prompt_tokens = outputs.prompt_tokens
        span = tracing.start_span("stream")
        try:
            async for output in outputs:
                self._take(output)
                if output.usage is not None:
                    return self._complete(output.usage)
        finally:
            tracing.end_span(span)
        raise InferenceFailed("The generation ended before it was whole; try again.")

    def cancelled(self) -> FinishReason:
        """Tells the end of an inference whose `run` was cancelled for its client. Counts the tokens that were told."""
        for choice in self._choices:
            if choice.finish_reason is FinishReason.ERROR:
                choice.finish_reason = FinishReason.CANCELLED
        return self._complete(Usage(self._prompt_tokens, self._tokens))

    def _take(self, output: GenerationOutput) -> None:
        if output.finish_reason is FinishReason.ERROR:
            raise error_from_output(output)
        self._choices[output.choice].add(output)
        if output.finish_reason is FinishReason.CANCELLED:
            return
        self._tokens += 1
        if self._frame.streams:
            choice = output.choice if self._frame.body.n > 1 else UNSET
            told = choice_logprobs(output.logprobs) if output.logprobs else UNSET
            self._tell(TokenMessage(self._frame.id, output.text, output.index, choice, told))

    def _complete(self, usage: Usage) -> FinishReason:
        choices = [build_completed_choice(choice, self._frame) for choice in self._choices]
        first = choices[0]
        self._tell(
            CompleteMessage(
                id=self._frame.id,
                model=self._frame.body.model,
                finish_reason=first.finish_reason,
                usage=WireUsage.of(usage),
                processing_time_ms=round((time.monotonic() - self._began) * 1000),
                text=first.text,
                logprobs=first.logprobs,
                choices=choices if len(choices) > 1 else UNSET,
            )
        )
        return first.finish_reason


def _api_error(problem: Problem) -> ApiError:
    return ApiError(
        problem.status, problem.message, code=problem.code, details=problem.details, headers=problem.headers
    )
