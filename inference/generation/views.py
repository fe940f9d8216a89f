"""Routes of generation. Errors before the first byte are a status, later ones an event."""

import time
from collections.abc import Iterable

from inference.access.operations import Call, operation
from inference.engine import FinishReason, InvalidRequest
from inference.generation import services
from inference.generation.streaming import EventStream
from inference.protocol import native, openai, openai_completions, sse
from inference.protocol.choices import Choice
from inference.protocol.errors import unloaded
from shared.accounts.roles import Permission


@operation(
    "POST",
    summary="Generate text from a prompt",
    permission=Permission.RUN_INFERENCE,
    body=native.InferenceBody,
    answer=native.InferenceResult,
    events=native.STREAM_EVENTS,
    keyed=True,
)
async def infer(call: Call[native.InferenceBody]) -> native.InferenceResult | EventStream:
    """With `stream: true`, the answer is that of /inference/stream."""
    if call.body.stream is True:
        return await _stream(call)
    began = time.monotonic()
    result_id = services.new_id("inf_")
    completion = await services.complete(
        caller=call.caller, model_id=call.body.model, request=call.body.generation_request(result_id)
    )
    return native.InferenceResult(
        id=result_id,
        model=call.body.model,
        choices=native.inference_choices(completion.choices, with_logprobs=call.body.logprobs is True),
        usage=native.Usage.of(completion.usage),
        created=int(time.time()),
        processing_time_ms=round((time.monotonic() - began) * 1000),
    )


@operation(
    "POST",
    summary="Generate text from a prompt, as events",
    permission=Permission.RUN_INFERENCE,
    body=native.InferenceBody,
    events=native.STREAM_EVENTS,
    keyed=True,
)
async def infer_stream(call: Call[native.InferenceBody]) -> EventStream:
    """One event a token, then one with `done`; a failure in mid stream is an event with `error` and the end."""
    if call.body.stream is False:
        raise InvalidRequest(
            "stream is wrong: this address only streams; POST /inference answers whole.", field="stream"
        )
    return await _stream(call)


@operation(
    "POST",
    summary="Chat (OpenAI)",
    permission=Permission.RUN_INFERENCE,
    body=openai.ChatBody,
    parser=openai.parse_chat,
    answer=openai.ChatCompletion,
    events=(openai.ChatChunk, openai.OpenAIErrorEvent),
    keyed=True,
)
async def chat(call: Call[openai.ChatBody]) -> openai.ChatCompletion | EventStream:
    """With `stream: true`, chunks as OpenAI's clients expect them, and `[DONE]`."""
    body = call.body
    completion_id, created = services.new_id("chatcmpl-"), int(time.time())
    request = body.generation_request(completion_id)
    if body.stream:
        chunks = openai.ChatStream(
            completion_id=completion_id,
            created=created,
            model=body.model,
            include_usage=body.include_usage,
            n=request.n,
        )
        outputs = await services.stream(caller=call.caller, model_id=body.model, request=request)
        return EventStream(outputs, chunks.events, start=chunks.start())
    completion = await services.complete(caller=call.caller, model_id=body.model, request=request)
    _refuse_cancelled(completion.choices)
    return openai.chat_completion(
        completion_id=completion_id,
        created=created,
        model=body.model,
        choices=completion.choices,
        usage=completion.usage,
        with_logprobs=body.logprobs is True,
    )


@operation(
    "POST",
    summary="Complete prompts (OpenAI)",
    permission=Permission.RUN_INFERENCE,
    body=openai_completions.CompletionBody,
    parser=openai_completions.parse_completion,
    answer=openai_completions.TextCompletion,
    events=(openai_completions.CompletionChunk, openai.OpenAIErrorEvent),
    keyed=True,
)
async def completions(
    call: Call[openai_completions.CompletionBody],
) -> openai_completions.TextCompletion | EventStream:
    """The prompts are continued as they stand. With `stream: true`, chunks as OpenAI's clients expect them."""
    body = call.body
    completion_id, created = services.new_id("cmpl-"), int(time.time())
    requests, with_logprobs = body.generation_requests(completion_id), body.logprobs is not None
    if body.stream:
        chunks = openai_completions.CompletionStream(
            completion_id=completion_id,
            created=created,
            model=body.model,
            include_usage=body.include_usage,
            with_logprobs=with_logprobs,
        )
        outputs = await services.stream_all(caller=call.caller, model_id=body.model, requests=requests)
        return EventStream(outputs, chunks.events)
    completion = await services.complete_all(caller=call.caller, model_id=body.model, requests=requests)
    _refuse_cancelled(completion.choices)
    return openai_completions.text_completion(
        completion_id=completion_id,
        created=created,
        model=body.model,
        choices=completion.choices,
        usage=completion.usage,
        with_logprobs=with_logprobs,
    )


def _refuse_cancelled(choices: Iterable[Choice]) -> None:
    """OpenAI's clients know no such reason."""
    if any(choice.finish_reason is FinishReason.CANCELLED for choice in choices):
        raise unloaded()


async def _stream(call: Call[native.InferenceBody]) -> EventStream:
    body = call.body
    request = body.generation_request(services.new_id("inf_"))
    outputs = await services.stream(caller=call.caller, model_id=body.model, request=request)
    return EventStream(outputs, lambda output: map(sse.event, native.stream_events(output, body.n)))
