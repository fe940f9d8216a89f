"""Generating text: every surface asks here, so that the same parameters give the same result on each."""

import asyncio
import secrets
from dataclasses import dataclass

from msgspec.structs import replace

from inference.engine import (
    EngineDied,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    GenerationStream,
    Usage,
)
from inference.protocol.choices import Choice
from inference.protocol.errors import error_of
from inference.registry.engines import engine_for
from shared.accounts.authentication import Principal
from shared.accounts.roles import Permission
from shared.api.errors import ApiError

# A stream that says nothing for so long begins all the same, so that it can be kept alive.
BEGINS_WITHIN_S = 10.0


@dataclass(frozen=True)
class Completion:
    """A whole generation."""

    choices: list[Choice]
    usage: Usage


def new_id(prefix: str) -> str:
    """`prefix` and 24 random hexadecimal digits."""
    return f"{prefix}{secrets.token_hex(12)}"


async def stream(*, caller: Principal | None, model_id: str, request: GenerationRequest) -> GenerationStream:
    """Returns once the engine has begun to answer, or is slow to; who reads it must close it. Leaving cancels it.

    caller: None is the operator at this machine's command line.

    ApiError MODEL_NOT_FOUND, AUTHORIZATION_FAILED; ModelNotLoaded, InvalidRequest, ContextLengthExceeded,
    EngineOverloaded, EngineDied, DeadlineExceeded, HostUnavailable.
    """
    if request.priority > 0 and caller is not None and not caller.may(Permission.MANAGE_MODELS):
        raise ApiError(403, f"A priority above 0 needs the permission {Permission.MANAGE_MODELS}.")
    user = str(caller.user.pk) if caller is not None else ""
    outputs = await engine_for(model_id).generate(model_id, replace(request, user=user))
    try:
        first = await _first(outputs)
        if first is not None and first.finish_reason is FinishReason.ERROR:
            raise error_of(first)
    except BaseException:
        await outputs.close()
        raise
    return outputs


async def _first(outputs: GenerationStream) -> GenerationOutput | None:
    """The output that the stream begins with; None while there is none."""
    try:
        async with asyncio.timeout(BEGINS_WITHIN_S):
            return await outputs.peek()
    except TimeoutError:
        return None


async def complete(*, caller: Principal, model_id: str, request: GenerationRequest) -> Completion:
    """All choices, whole. Raises as `stream` does, also when the generation breaks off. Leaving cancels it."""
    async with await stream(caller=caller, model_id=model_id, request=request) as outputs:
        choices = [Choice(index) for index in range(request.n)]
        async for output in outputs:
            if output.finish_reason is FinishReason.ERROR:
                raise error_of(output)
            choices[output.choice].add(output)
            if output.usage is not None:
                return Completion(choices, output.usage)
    raise EngineDied("The generation ended before it was whole; try again.")
