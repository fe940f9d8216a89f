"""One request of a batch, asked of the engine: from its body to its answer in the batch's form."""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from inference.batches.item_spans import item_span
from inference.batches.models import Batch
from inference.embeddings.services import embed_for_batch, read_vector
from inference.engine import (
    DeadlineExceeded,
    EmbeddingRequest,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    InferenceFailed,
    ModelNotLoaded,
    Usage,
)
from inference.generation.services import new_id
from inference.protocol import native, openai, openai_completions, openai_embeddings
from inference.protocol.batch import in_conversation, inference_body
from inference.protocol.choices import Choice
from inference.protocol.errors import error_of
from inference.protocol.parameters import parse
from inference.registry.engines import engine_for

ANSWERS_WITHIN_S = 3600.0  # where a request says nothing of its own
ENGINE_LATE_S = 5.0
UNLOADED = "The model was unloaded while it wrote this."

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True)
class Answer:
    """JSON in the batch's form, and what it took."""

    json: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    processing_time_ms: int


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all requests of a batch have in common."""

    batch_id: str
    kind: str
    model_id: str
    user: str
    parameters: dict[str, Any]

    @classmethod
    def of(cls, batch: Batch) -> "Job":
        return cls(
            batch_id=batch.batch_id,
            kind=batch.kind,
            model_id=batch.model_id,
            user=str(batch.user_id),
            parameters=batch.parameters,
        )

    async def answer(self, body: str, request_id: str) -> Answer:
        """Raises what the engine raises, InvalidRequest for a body that is wrong, ModelNotLoaded when the model is
        unloaded meanwhile. Leaving cancels."""
        began = time.monotonic()
        with item_span(batch_id=self.batch_id, user_id=self.user):
            answer, usage = await _ANSWERS[self.kind](self, msgspec.json.decode(body), request_id)
        return Answer(
            json=_encoder.encode(answer).decode(),
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.cached_tokens,
            processing_time_ms=round((time.monotonic() - began) * 1000),
        )


Made = tuple[Any, Usage]


async def _native(job: Job, body: dict[str, Any], request_id: str) -> Made:
    asked = inference_body(body, model_id=job.model_id, parameters=job.parameters)
    choices, usage = await _generate(job, [in_conversation(asked.generation_request(request_id), body)])
    told = native.inference_choices(choices, with_logprobs=asked.logprobs is True)
    return {"choices": told, "usage": native.Usage.of(usage)}, usage


async def _chat(job: Job, body: dict[str, Any], request_id: str) -> Made:
    asked = openai.parse_chat(body)
    choices, usage = await _generate(job, [asked.generation_request(request_id)])
    answer = openai.chat_completion(
        completion_id=new_id("chatcmpl-"),
        created=int(time.time()),
        model=job.model_id,
        choices=choices,
        usage=usage,
        with_logprobs=asked.logprobs is True,
    )
    return answer, usage


async def _completion(job: Job, body: dict[str, Any], request_id: str) -> Made:
    asked = openai_completions.parse_completion(body)
    choices, usage = await _generate(job, asked.generation_requests(request_id))
    answer = openai_completions.text_completion(
        completion_id=new_id("cmpl-"),
        created=int(time.time()),
        model=job.model_id,
        choices=choices,
        usage=usage,
        with_logprobs=asked.logprobs is not None,
    )
    return answer, usage


async def _embedding(job: Job, body: dict[str, Any], request_id: str) -> Made:
    asked = parse(body, openai_embeddings.OpenAIEmbeddingsBody)
    request = EmbeddingRequest(request_id=request_id, texts=asked.texts(), user=job.user, batch=True)
    async with _in_time(None):
        result = await embed_for_batch(model_id=job.model_id, request=request, dimensions=asked.dimensions)
    is_packed = asked.encoding_format == "base64"
    answer = openai_embeddings.OpenAIEmbeddingsAnswer(
        object="list",
        data=[
            openai_embeddings.OpenAIEmbedding(
                "embedding", index, base64.b64encode(vector).decode() if is_packed else read_vector(vector).tolist()
            )
            for index, vector in enumerate(result.vectors)
        ],
        model=job.model_id,
        usage=native.EmbeddingsUsage(result.prompt_tokens, result.prompt_tokens),
    )
    return answer, Usage(result.prompt_tokens, 0)


_ANSWERS: dict[str, Callable[[Job, dict[str, Any], str], Awaitable[Made]]] = {
    Batch.Kind.NATIVE: _native,
    Batch.Kind.CHAT: _chat,
    Batch.Kind.COMPLETION: _completion,
    Batch.Kind.EMBEDDING: _embedding,
}


async def _generate(job: Job, requests: Sequence[GenerationRequest]) -> tuple[list[Choice], Usage]:
    """All choices of all requests, which are one request's: one fails, all fail."""
    if len(requests) == 1:
        return await _one(job, requests[0])
    tasks = [asyncio.create_task(_one(job, request)) for request in requests]
    try:
        wholes = await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    choices = [choice for part, _ in wholes for choice in part]
    for index, choice in enumerate(choices):
        choice.index = index
    return choices, _sum([usage for _, usage in wholes])


async def _one(job: Job, request: GenerationRequest) -> tuple[list[Choice], Usage]:
    """As background work, which takes what interactive requests leave."""
    choices = [Choice(index) for index in range(request.n)]
    async with _in_time(request.timeout):
        asked = replace(request, user=job.user, batch=True, gathered=True)
        async with await engine_for(job.model_id).generate(job.model_id, asked) as stream:
            while outputs := await stream.read():
                for output in outputs:
                    _refuse_broken_off(output)
                    choices[output.choice].add(output)
                if (usage := outputs[-1].usage) is not None:
                    return choices, usage
    raise InferenceFailed("The generation ended before it was whole.")


def _refuse_broken_off(output: GenerationOutput) -> None:
    if output.finish_reason is FinishReason.ERROR:
        raise error_of(output)
    if output.finish_reason is FinishReason.CANCELLED:
        raise ModelNotLoaded(UNLOADED)


@contextlib.asynccontextmanager
async def _in_time(limit_s: float | None) -> AsyncIterator[None]:
    """The engine keeps to a request's own time limit; an engine that hangs keeps to none."""
    try:
        async with asyncio.timeout((limit_s or ANSWERS_WITHIN_S) + ENGINE_LATE_S):
            yield
    except TimeoutError:
        raise DeadlineExceeded("The request took longer than its time limit.") from None


def _sum(usages: Sequence[Usage]) -> Usage:
    return Usage(
        sum(usage.prompt_tokens for usage in usages),
        sum(usage.completion_tokens for usage in usages),
        sum(usage.cached_tokens for usage in usages),
    )
