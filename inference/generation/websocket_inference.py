"""One inference of a WebSocket connection, answered in messages."""

import time
from collections.abc import Callable

import structlog
from msgspec import UNSET

from inference.access.responses import problem_from_engine_error
from inference.engine import EngineError, FinishReason, GenerationOutput, GenerationStream, InferenceFailed, Usage
from inference.generation import services
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import INCOMPLETE_MESSAGE, error_from_output
from inference.protocol.logprobs import choice_logprobs
from inference.protocol.native.websocket import (
    CompleteMessage,
    InferenceMessage,
    ServerMessage,
    TokenMessage,
    build_completed_choice,
)
from inference.protocol.token_usage import TokenUsage
from shared.accounts.authentication import Principal
from shared.api.errors import ApiError, Problem
from shared.observability import tracing

logger = structlog.get_logger(__name__)

SendMessage = Callable[[ServerMessage], None]


class WebSocketInference:
    """Sends every token and the end through `send`. `run` raises ApiError for every failure, before or during it."""

    def __init__(self, request: InferenceMessage, send: SendMessage) -> None:
        self._request = request
        self._send = send
        self._started_at = time.monotonic()
        self._choices = [GeneratedChoice(index) for index in range(request.n)]
        self._tokens = 0
        self._prompt_tokens = 0

    async def run(self, caller: Principal) -> FinishReason:
        """Run the inference, and return the first choice's finish reason."""
        model_id = self._request.model
        try:
            generation = self._request.generation_request(services.new_id("inf_"))
            async with await services.start_stream(caller=caller, model_id=model_id, request=generation) as outputs:
                return await self._read(outputs)
        except EngineError as error:
            raise _api_error(problem_from_engine_error(error)) from error

    async def _read(self, outputs: GenerationStream) -> FinishReason:
        self._prompt_tokens = outputs.prompt_tokens
        span = tracing.start_span("stream")
        try:
            async for output in outputs:
                self._add(output)
                if output.usage is not None:
                    return self._complete(output.usage)
        finally:
            tracing.end_span(span)
        raise InferenceFailed(INCOMPLETE_MESSAGE)

    def finish_cancelled(self) -> FinishReason:
        """Send the end of an inference that its client cancelled, with the usage of the tokens that were sent."""
        for choice in self._choices:
            if choice.finish_reason is FinishReason.ERROR:
                choice.finish_reason = FinishReason.CANCELLED
        return self._complete(Usage(self._prompt_tokens, self._tokens))

    def _add(self, output: GenerationOutput) -> None:
        if output.finish_reason is FinishReason.ERROR:
            raise error_from_output(output)
        self._choices[output.choice].add(output)
        if output.finish_reason is FinishReason.CANCELLED:
            return
        self._tokens += 1
        if self._request.streams:
            choice = output.choice if self._request.n > 1 else UNSET
            logprobs = choice_logprobs(output.logprobs) if output.logprobs else UNSET
            self._send(TokenMessage(self._request.id, output.text, output.index, choice, logprobs))

    def _complete(self, usage: Usage) -> FinishReason:
        choices = [build_completed_choice(choice, self._request) for choice in self._choices]
        first = choices[0]
        self._send(
            CompleteMessage(
                id=self._request.id,
                model=self._request.model,
                finish_reason=first.finish_reason,
                usage=TokenUsage.from_engine(usage),
                processing_time_ms=round((time.monotonic() - self._started_at) * 1000),
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
