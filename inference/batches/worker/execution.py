"""Execution of one request of a batch: from its JSON body to its answer in the form of the batch's kind."""

import asyncio
import contextlib
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from inference.batches.models import Batch, BatchRequest
from inference.batches.worker.recording import RequestOutcome
from inference.embeddings.services import build_openai_response, embed_for_batch
from inference.engine import (
    ContextLengthExceeded,
    DeadlineExceeded,
    EmbeddingRequest,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    InferenceFailed,
    InvalidRequest,
    ModelNotLoaded,
    Usage,
)
from inference.generation.services import new_id
from inference.protocol.anthropic.requests import parse_messages_request
from inference.protocol.anthropic.responses import build_message
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import MODEL_UNLOADED_MESSAGE, error_from_output
from inference.protocol.native.batches import to_inference_request, with_messages
from inference.protocol.native.inference import build_inference_choices
from inference.protocol.openai.chat import build_chat_completion, parse_chat_request
from inference.protocol.openai.completions import build_text_completion, parse_completion_request
from inference.protocol.openai.embeddings import OpenAIEmbeddingsRequest
from inference.protocol.openai.responses.encoder import ResponseEncoder
from inference.protocol.parsing import parse_struct
from inference.protocol.token_usage import TokenUsage
from inference.registry.engines import model_engine
from inference.responses.batch_requests import batch_generation_request, parse_batch_response
from inference.responses.runs import MAX_TRUNCATIONS, truncated
from shared.observability import tracing
from shared.observability.request_fields import bind_fields

DEFAULT_TIMEOUT_SECONDS = 3600.0
TIMEOUT_GRACE_SECONDS = 5.0
SPAN_INTERVAL_SECONDS = 1.0

_encoder = msgspec.json.Encoder()


async def execute_request(batch: Batch, request: BatchRequest) -> RequestOutcome:
    """Return the answer to the request in the form of the batch's kind. Cancelling this cancels the generation.

    Raises the engine's errors, InvalidRequest for an invalid body, and ModelNotLoaded if the model is unloaded.
    """
    started, request_id = time.monotonic(), f"batch-{request.pk}-{uuid.uuid4().hex[:12]}"
    with _request_span(batch):
        answer, usage = await _EXECUTE_BY_KIND[batch.kind](batch, msgspec.json.decode(request.body), request_id)
    return RequestOutcome(
        request=request.pk,
        answer=_encoder.encode(answer).decode(),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        processing_time_ms=round((time.monotonic() - started) * 1000),
    )


async def _native(batch: Batch, fields: dict[str, Any], request_id: str) -> tuple[Any, Usage]:
    body = to_inference_request(fields, model_id=batch.model_id, parameters=batch.parameters)
    choices, usage = await _generate_all(batch, [with_messages(body.generation_request(request_id), fields)])
    wire_choices = build_inference_choices(choices, with_logprobs=body.logprobs is True)
    return {"choices": wire_choices, "usage": TokenUsage.from_engine(usage)}, usage


async def _chat(batch: Batch, fields: dict[str, Any], request_id: str) -> tuple[Any, Usage]:
    body = parse_chat_request(fields)
    choices, usage = await _generate_all(batch, [body.generation_request(request_id)])
    answer = build_chat_completion(
        completion_id=new_id("chatcmpl-"),
        created=int(time.time()),
        model=batch.model_id,
        choices=choices,
        usage=usage,
        with_logprobs=body.logprobs is True,
    )
    return answer, usage


async def _completion(batch: Batch, fields: dict[str, Any], request_id: str) -> tuple[Any, Usage]:
    body = parse_completion_request(fields)
    choices, usage = await _generate_all(batch, body.generation_requests(request_id))
    answer = build_text_completion(
        completion_id=new_id("cmpl-"),
        created=int(time.time()),
        model=batch.model_id,
        choices=choices,
        usage=usage,
        with_logprobs=body.logprobs is not None,
    )
    return answer, usage


async def _embedding(batch: Batch, fields: dict[str, Any], request_id: str) -> tuple[Any, Usage]:
    body = parse_struct(fields, OpenAIEmbeddingsRequest)
    request = EmbeddingRequest(request_id=request_id, texts=body.texts(), user=str(batch.user_id), batch=True)
    async with _time_limit(None):
        result = await embed_for_batch(model_id=batch.model_id, request=request, dimensions=body.dimensions)
    answer = build_openai_response(batch.model_id, result, body.encoding_format)
    return answer, Usage(result.prompt_tokens, 0)


async def _response(batch: Batch, fields: dict[str, Any], request_id: str) -> tuple[Any, Usage]:
    body, response_id = parse_batch_response(fields), new_id("resp_")
    request = replace(batch_generation_request(body, response_id), request_id=request_id)
    response = body.to_response(response_id, int(time.time()), "in_progress")
    for _ in range(MAX_TRUNCATIONS):
        encoder = ResponseEncoder(response, with_logprobs=body.has_logprobs)
        try:
            usage = await _run(batch, request, partial(_push, encoder))
        except ContextLengthExceeded as error:
            if body.truncation != "auto":
                raise
            request = truncated(request, error)
        else:
            return encoder.response, usage
    raise InvalidRequest("The input could not be truncated to the model's context. Shorten it.", field="input")


def _push(encoder: ResponseEncoder, output: GenerationOutput) -> None:
    encoder.push(output, ended_at=time.time())


async def _message(batch: Batch, fields: dict[str, Any], request_id: str) -> tuple[Any, Usage]:
    body = parse_messages_request(fields)
    [choice], usage = await _generate(batch, body.generation_request(request_id))
    message_id = new_id("msg_")
    return build_message(message_id, batch.model_id, choice, usage, shows_thinking=body.shows_thinking), usage


_EXECUTE_BY_KIND: dict[str, Callable[[Batch, dict[str, Any], str], Awaitable[tuple[Any, Usage]]]] = {
    Batch.Kind.NATIVE: _native,
    Batch.Kind.CHAT: _chat,
    Batch.Kind.COMPLETION: _completion,
    Batch.Kind.EMBEDDING: _embedding,
    Batch.Kind.RESPONSE: _response,
    Batch.Kind.MESSAGE: _message,
}


async def _generate_all(batch: Batch, requests: Sequence[GenerationRequest]) -> tuple[list[GeneratedChoice], Usage]:
    """Return the choices of all generations of one request. If one fails, the others are cancelled."""
    if len(requests) == 1:
        return await _generate(batch, requests[0])
    tasks = [asyncio.create_task(_generate(batch, request)) for request in requests]
    try:
        generations = await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    choices = [choice for group, _ in generations for choice in group]
    for index, choice in enumerate(choices):
        choice.index = index
    return choices, sum((usage for _, usage in generations), Usage(0, 0))


async def _generate(batch: Batch, request: GenerationRequest) -> tuple[list[GeneratedChoice], Usage]:
    choices = [GeneratedChoice(index) for index in range(request.n)]
    usage = await _run(batch, request, lambda output: choices[output.choice].add(output))
    return choices, usage


async def _run(batch: Batch, request: GenerationRequest, add: Callable[[GenerationOutput], object]) -> Usage:
    """Generate with batch priority, which takes the capacity that interactive requests leave. Return the usage."""
    async with _time_limit(request.timeout):
        batch_request = replace(request, user=str(batch.user_id), batch=True, coalesce_outputs=True)
        async with await model_engine.generate(batch.model_id, batch_request) as stream:
            while outputs := await stream.read():
                for output in outputs:
                    _raise_if_aborted(output)
                    add(output)
                if (usage := outputs[-1].usage) is not None:
                    return usage
    raise InferenceFailed("The generation ended before it was complete.")


def _raise_if_aborted(output: GenerationOutput) -> None:
    if output.finish_reason is FinishReason.ERROR:
        raise error_from_output(output)
    if output.finish_reason is FinishReason.CANCELLED:
        raise ModelNotLoaded(MODEL_UNLOADED_MESSAGE)


@contextlib.asynccontextmanager
async def _time_limit(seconds: float | None) -> AsyncIterator[None]:
    """Raise DeadlineExceeded after the limit. The engine enforces a request's limit, but a hung engine cannot."""
    try:
        async with asyncio.timeout((seconds or DEFAULT_TIMEOUT_SECONDS) + TIMEOUT_GRACE_SECONDS):
            yield
    except TimeoutError:
        raise DeadlineExceeded("The request took longer than its time limit.") from None


class _SpanSampler:
    """Samples one request a second in each process: spans of all requests would evict other traces."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next_at = 0.0

    def is_sampled(self) -> bool:
        with self._lock:
            now = time.monotonic()
            if now < self._next_at:
                return False
            self._next_at = now + SPAN_INTERVAL_SECONDS
            return True


_span_sampler = _SpanSampler()


@contextlib.contextmanager
def _request_span(batch: Batch) -> Iterator[None]:
    """Trace one request as a span `batch.<id>`, if it is sampled."""
    name = f"batch.{batch.batch_id}"
    with (
        bind_fields(user_id=str(batch.user_id)),
        tracing.trace_request(name, kind=tracing.SpanKind.CONSUMER, wanted=_span_sampler.is_sampled()) as span,
    ):
        failed = True
        try:
            yield
            failed = False
        finally:
            tracing.annotate_span(span, {}, failed=failed)
