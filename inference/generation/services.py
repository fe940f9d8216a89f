"""Generating text: every surface asks here, so that the same parameters give the same result on each."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from inference.engine import (
    EngineError,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    GenerationStream,
    InferenceFailed,
    Usage,
)
from inference.generation.merged_stream import MergedStream
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import error_from_output
from inference.registry.engines import engine_for
from inference.usage.estimates import estimate_generation_tokens
from inference.usage.services import admit
from shared.accounts.authentication import Principal
from shared.accounts.roles import Permission
from shared.api.errors import ApiError

# A stream that says nothing for so long begins all the same, so that it can be kept alive.
FIRST_OUTPUT_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class CompletedGeneration:
    """A whole generation."""

    choices: list[GeneratedChoice]
    usage: Usage


def new_id(prefix: str) -> str:
    """`prefix` and 24 random hexadecimal digits."""
    return f"{prefix}{secrets.token_hex(12)}"


async def start_stream(*, caller: Principal | None, model_id: str, request: GenerationRequest) -> GenerationStream:
    """Returns once the engine has begun to answer, or is slow to; who reads it must close it. Leaving cancels it.

    caller: None is the operator at this machine's command line, who has no limits.

    ApiError MODEL_NOT_FOUND, AUTHORIZATION_FAILED, RATE_LIMIT_EXCEEDED; ModelNotLoaded, InvalidRequest,
    ContextLengthExceeded, EngineOverloaded, EngineDied, InferenceFailed, DeadlineExceeded, HostUnavailable.
    """
    [outputs] = await _let_in(caller, model_id, [request])
    return await _begun(outputs)


async def start_merged_stream(
    *, caller: Principal | None, model_id: str, requests: Sequence[GenerationRequest]
) -> GenerationStream:
    """Several requests that differ in their prompts alone, as one stream: see `Merging`. Raises as `stream` does."""
    first = requests[0]
    if len(requests) == 1:
        return await start_stream(caller=caller, model_id=model_id, request=first)
    streams = await _let_in(caller, model_id, requests)
    return await _begun(MergedStream(streams, request_id=first.request_id, n=first.n).merged)


async def complete(*, caller: Principal | None, model_id: str, request: GenerationRequest) -> CompletedGeneration:
    """All choices, whole. Raises as `stream` does, also when the generation breaks off. Leaving cancels it."""
    return await _whole(await start_stream(caller=caller, model_id=model_id, request=request), request.n)


async def complete_all(
    *, caller: Principal | None, model_id: str, requests: Sequence[GenerationRequest]
) -> CompletedGeneration:
    """The same for several prompts, whose choices follow each other and whose usage is summed."""
    outputs = await start_merged_stream(caller=caller, model_id=model_id, requests=requests)
    return await _whole(outputs, sum(request.n for request in requests))


def _check_priority(caller: Principal | None, request: GenerationRequest) -> None:
    if request.priority > 0 and caller is not None and not caller.has_permission(Permission.MANAGE_MODELS):
        raise ApiError(403, f"A priority above 0 needs the permission {Permission.MANAGE_MODELS}.")


async def _let_in(
    caller: Principal | None, model_id: str, requests: Sequence[GenerationRequest]
) -> list[GenerationStream]:
    """Submitted within the caller's limits, as one request. What it reserves is settled when all streams have ended."""
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
    return await engine_for(model_id).generate(model_id, replace(request, user=user))


async def _submit_all(
    caller: Principal | None, model_id: str, requests: Sequence[GenerationRequest]
) -> list[GenerationStream]:
    """All of them, or none: when one is refused, the others are cancelled."""
    if len(requests) == 1:
        return [await _submit(caller, model_id, requests[0])]
    tasks = [
        asyncio.create_task(_submit_one_of_many(caller, model_id, request, place))
        for place, request in enumerate(requests)
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


async def _submit_one_of_many(
    caller: Principal | None, model_id: str, request: GenerationRequest, place: int
) -> GenerationStream:
    try:
        return await _submit(caller, model_id, request)
    except EngineError as error:
        error.message = f"prompt[{place}]: {error.message}"
        raise


async def _begun(outputs: GenerationStream) -> GenerationStream:
    try:
        first = await _first(outputs)
        if first is not None and first.finish_reason is FinishReason.ERROR:
            raise error_from_output(first)
    except BaseException:
        await outputs.close()
        raise
    return outputs


async def _first(outputs: GenerationStream) -> GenerationOutput | None:
    """The output that the stream begins with; None while there is none."""
    try:
        async with asyncio.timeout(FIRST_OUTPUT_TIMEOUT_SECONDS):
            return await outputs.peek()
    except TimeoutError:
        return None


async def _whole(outputs: GenerationStream, choices: int) -> CompletedGeneration:
    async with outputs:
        whole = [GeneratedChoice(index) for index in range(choices)]
        async for output in outputs:
            if output.finish_reason is FinishReason.ERROR:
                raise error_from_output(output)
            whole[output.choice].add(output)
            if output.usage is not None:
                return CompletedGeneration(whole, output.usage)
    raise InferenceFailed("The generation ended before it was whole; try again.")
