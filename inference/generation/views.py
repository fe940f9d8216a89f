"""Views of text generation. An error before the first event is an HTTP status, a later one is an event."""

import time
from collections.abc import Iterable

from django.http import StreamingHttpResponse

from inference.access.operations import OperationCall, operation
from inference.engine import FinishReason, InvalidRequest
from inference.generation import schema, services
from inference.generation.streaming import respond_with_stream
from inference.protocol import sse
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import model_unloaded_error
from inference.protocol.native.inference import (
    STREAM_EVENTS,
    InferenceRequest,
    InferenceResponse,
    build_inference_choices,
    stream_events,
)
from inference.protocol.openai.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionRequest,
    ChatStreamEncoder,
    build_chat_completion,
    parse_chat_request,
)
from inference.protocol.openai.completions import (
    CompletionChunk,
    CompletionRequest,
    CompletionStreamEncoder,
    TextCompletion,
    build_text_completion,
    parse_completion_request,
)
from inference.protocol.openai.errors import OpenAIErrorEvent
from inference.protocol.token_usage import TokenUsage
from shared.accounts.roles import Permission


@operation(
    "POST",
    docs=schema.INFERENCE,
    permission=Permission.RUN_INFERENCE,
    body=InferenceRequest,
    response=InferenceResponse,
    events=STREAM_EVENTS,
    idempotent=True,
)
async def infer(call: OperationCall[InferenceRequest]) -> InferenceResponse | StreamingHttpResponse:
    if call.body.stream is True:
        return await _stream(call)
    started_at = time.monotonic()
    result_id = services.new_id("inf_")
    completion = await services.complete(
        caller=call.caller, model_id=call.body.model, request=call.body.generation_request(result_id)
    )
    return InferenceResponse(
        id=result_id,
        model=call.body.model,
        choices=build_inference_choices(completion.choices, with_logprobs=call.body.logprobs is True),
        usage=TokenUsage.from_engine(completion.usage),
        created=int(time.time()),
        processing_time_ms=round((time.monotonic() - started_at) * 1000),
    )


@operation(
    "POST",
    docs=schema.INFERENCE_STREAM,
    permission=Permission.RUN_INFERENCE,
    body=InferenceRequest,
    events=STREAM_EVENTS,
    idempotent=True,
)
async def infer_stream(call: OperationCall[InferenceRequest]) -> StreamingHttpResponse:
    if call.body.stream is False:
        raise InvalidRequest("`stream` must be true or absent: POST /inference returns whole texts.", field="stream")
    return await _stream(call)


@operation(
    "POST",
    docs=schema.CHAT_COMPLETIONS,
    permission=Permission.RUN_INFERENCE,
    body=ChatCompletionRequest,
    body_parser=parse_chat_request,
    response=ChatCompletion,
    events=(ChatCompletionChunk, OpenAIErrorEvent),
    idempotent=True,
)
async def chat(call: OperationCall[ChatCompletionRequest]) -> ChatCompletion | StreamingHttpResponse:
    body = call.body
    completion_id, created = services.new_id("chatcmpl-"), int(time.time())
    request = body.generation_request(completion_id)
    if body.stream:
        chunks = ChatStreamEncoder(
            completion_id=completion_id,
            created=created,
            model=body.model,
            include_usage=body.include_usage,
            n=request.n,
        )
        outputs = await services.start_stream(caller=call.caller, model_id=body.model, request=request)
        return await respond_with_stream(call, outputs, chunks.events, start=chunks.start())
    completion = await services.complete(caller=call.caller, model_id=body.model, request=request)
    _raise_if_cancelled(completion.choices)
    return build_chat_completion(
        completion_id=completion_id,
        created=created,
        model=body.model,
        choices=completion.choices,
        usage=completion.usage,
        with_logprobs=body.logprobs is True,
    )


@operation(
    "POST",
    docs=schema.COMPLETIONS,
    permission=Permission.RUN_INFERENCE,
    body=CompletionRequest,
    body_parser=parse_completion_request,
    response=TextCompletion,
    events=(CompletionChunk, OpenAIErrorEvent),
    idempotent=True,
)
async def completions(
    call: OperationCall[CompletionRequest],
) -> TextCompletion | StreamingHttpResponse:
    body = call.body
    completion_id, created = services.new_id("cmpl-"), int(time.time())
    requests, with_logprobs = body.generation_requests(completion_id), body.logprobs is not None
    if body.stream:
        chunks = CompletionStreamEncoder(
            completion_id=completion_id,
            created=created,
            model=body.model,
            include_usage=body.include_usage,
            with_logprobs=with_logprobs,
        )
        outputs = await services.start_merged_stream(caller=call.caller, model_id=body.model, requests=requests)
        return await respond_with_stream(call, outputs, chunks.events)
    completion = await services.complete_all(caller=call.caller, model_id=body.model, requests=requests)
    _raise_if_cancelled(completion.choices)
    return build_text_completion(
        completion_id=completion_id,
        created=created,
        model=body.model,
        choices=completion.choices,
        usage=completion.usage,
        with_logprobs=with_logprobs,
    )


def _raise_if_cancelled(choices: Iterable[GeneratedChoice]) -> None:
    """Raise EngineDied for cancelled choices: OpenAI's clients do not know that finish reason."""
    if any(choice.finish_reason is FinishReason.CANCELLED for choice in choices):
        raise model_unloaded_error()


async def _stream(call: OperationCall[InferenceRequest]) -> StreamingHttpResponse:
    body = call.body
    request = body.generation_request(services.new_id("inf_"))
    outputs = await services.start_stream(caller=call.caller, model_id=body.model, request=request)
    return await respond_with_stream(call, outputs, lambda output: map(sse.encode_event, stream_events(output, body.n)))
