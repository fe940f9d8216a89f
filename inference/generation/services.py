"""Text generation for all surfaces, so that the same parameters give the same result on each."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from msgspec.structs import replace

from inference.engine import (
    EngineError,
    EngineOverloaded,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    GenerationStream,
    InferenceFailed,
    Usage,
)
from inference.generation.merged_stream import MergedStream
from inference.pools.cache import find_pool
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import INCOMPLETE_MESSAGE, error_from_output
from inference.registry.engines import model_engine
from inference.usage.estimates import estimate_generation_tokens
from inference.usage.services import admit
from shared.accounts.authentication import Principal
from shared.accounts.roles import Permission
from shared.api.errors import ApiError
from shared.serving.asgi.threads import metered

# A response starts after this time even without an output, so that keep-alive comments can be sent.
FIRST_OUTPUT_TIMEOUT_SECONDS = 10.0

# Of requests with several prompts, by their user and model.
_submissions: WeakValueDictionary[tuple[int | None, str], asyncio.Lock] = WeakValueDictionary()


@dataclass(frozen=True)
class CompletedGeneration:
    """All choices of a generation with their token usage."""

    choices: list[GeneratedChoice]
    usage: Usage


def new_id(prefix: str) -> str:
    """Return the prefix and 24 random hexadecimal digits."""
    return f"{prefix}{secrets.token_hex(12)}"


async def start_stream(*, caller: Principal | None, model_id: str, request: GenerationRequest) -> GenerationStream:
    """Return a stream after its first output, or after FIRST_OUTPUT_TIMEOUT_SECONDS. The reader must close it.

    caller: None is the operator at this machine's command line, who has no limits.

    Raise ApiError MODEL_NOT_FOUND, AUTHORIZATION_FAILED or RATE_LIMIT_EXCEEDED, or an EngineError. Cancelling the
    caller's task cancels the generation.
    """
    [outputs] = await _admit(caller, model_id, [request])
    return await _wait_for_first(outputs)


async def start_merged_stream(
    *, caller: Principal | None, model_id: str, requests: Sequence[GenerationRequest]
) -> GenerationStream:
    """Return one stream of several requests that differ only in their prompts. Raise as `start_stream` does."""
    first = requests[0]
    if len(requests) == 1:
        return await start_stream(caller=caller, model_id=model_id, request=first)
    streams = await _admit(caller, model_id, requests)
    return await _wait_for_first(MergedStream(streams, request_id=first.request_id, n=first.n).merged)


async def complete(*, caller: Principal | None, model_id: str, request: GenerationRequest) -> CompletedGeneration:
    """Return all choices at their end. Raise as `start_stream` does, and for a generation that fails later."""
    return await _collect(await start_stream(caller=caller, model_id=model_id, request=request), request.n)


async def complete_all(
    *, caller: Principal | None, model_id: str, requests: Sequence[GenerationRequest]
) -> CompletedGeneration:
    """Return the choices of several prompts in order, with their summed usage. Raise as `complete` does."""
    outputs = await start_merged_stream(caller=caller, model_id=model_id, requests=requests)
    return await _collect(outputs, sum(request.n for request in requests))


def _check_priority(caller: Principal | None, request: GenerationRequest) -> None:
    if request.priority > 0 and caller is not None and not caller.has_permission(Permission.MANAGE_MODELS):
        raise ApiError(403, f"A priority above 0 needs the permission {Permission.MANAGE_MODELS}.")


async def _admit(
    caller: Principal | None, model_id: str, requests: Sequence[GenerationRequest]
) -> list[GenerationStream]:
    """Submit the requests within the caller's limits, as one request. The admission ends with the last stream."""
    _check_priority(caller, requests[0])
    if caller is None:
        return await _submit_all(caller, model_id, requests)
    with await admit(
        caller=caller, model_id=model_id, tokens=sum(map(estimate_generation_tokens, requests))
    ) as admission:
        streams = await _submit_all(caller, model_id, requests)
        admission.follow(*streams)
    return streams


async def _submit(caller: Principal | None, model_id: str, request: GenerationRequest) -> GenerationStream:
    user = str(caller.user.pk) if caller is not None else ""
    return await model_engine.generate(model_id, replace(request, user=user))


async def _submit_all(
    caller: Principal | None, model_id: str, requests: Sequence[GenerationRequest]
) -> list[GenerationStream]:
    """Submit all requests. If one is refused, cancel the others and raise its error.

    A model of this machine refuses the first unless its queue has places for all. A caller's requests with several
    prompts are submitted one after the other, so that none takes the places of another that is refused then.
    """
    if len(requests) == 1:
        return [await _submit(caller, model_id, requests[0])]
    if await find_pool(model_id):  # whose members have queues of their own
        return await _submit_at_once(caller, model_id, requests, first=0)
    lock = _submissions.setdefault((caller.user.pk if caller else None, model_id), asyncio.Lock())
    async with lock:
        first = await _submit_one_of_many(caller, model_id, replace(requests[0], places=len(requests)), 0)
        try:
            others = [replace(request, places=0) for request in requests[1:]]
            return [first, *await _submit_at_once(caller, model_id, others, first=1)]
        except BaseException:
            await first.close()
            raise


async def _submit_at_once(
    caller: Principal | None, model_id: str, requests: Sequence[GenerationRequest], *, first: int
) -> list[GenerationStream]:
    tasks = [
        asyncio.create_task(_submit_metered(caller, model_id, request, position))
        for position, request in enumerate(requests, first)
    ]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, GenerationStream):
                await outcome.close()
        raise


async def _submit_metered(
    caller: Principal | None, model_id: str, request: GenerationRequest, position: int
) -> GenerationStream:
    """Submit in a task of its own, whose time counts for the user as well."""
    return await metered(_submit_one_of_many(caller, model_id, request, position))


async def _submit_one_of_many(
    caller: Principal | None, model_id: str, request: GenerationRequest, position: int
) -> GenerationStream:
    try:
        return await _submit(caller, model_id, request)
    except EngineOverloaded:
        raise
    except EngineError as error:
        error.message = f"prompt[{position}]: {error.message}"
        raise


async def _wait_for_first(outputs: GenerationStream) -> GenerationStream:
    try:
        first = await _peek(outputs)
        if first is not None and first.finish_reason is FinishReason.ERROR:
            raise error_from_output(first)
    except BaseException:
        await outputs.close()
        raise
    return outputs


async def _peek(outputs: GenerationStream) -> GenerationOutput | None:
    """Return the first output, or None if there is none within FIRST_OUTPUT_TIMEOUT_SECONDS."""
    try:
        async with asyncio.timeout(FIRST_OUTPUT_TIMEOUT_SECONDS):
            return await outputs.peek()
    except TimeoutError:
        return None


async def _collect(outputs: GenerationStream, choice_count: int) -> CompletedGeneration:
    async with outputs:
        choices = [GeneratedChoice(index) for index in range(choice_count)]
        async for output in outputs:
            if output.finish_reason is FinishReason.ERROR:
                raise error_from_output(output)
            choices[output.choice].add(output)
            if output.usage is not None:
                return CompletedGeneration(choices, output.usage)
    raise InferenceFailed(INCOMPLETE_MESSAGE)
