"""Generating text: every surface asks here, so that the same parameters give the same result on each."""

import secrets
from dataclasses import dataclass

from inference.engine import (
    EngineDied,
    FinishReason,
    GenerationRequest,
    GenerationStream,
    ModelNotLoaded,
    Usage,
)
from inference.registry.processes import engine
from inference.registry.services import find_card


@dataclass(frozen=True)
class Completion:
    """A whole generation."""

    text: str
    finish_reason: FinishReason
    usage: Usage


def new_id(prefix: str) -> str:
    """`prefix` and 24 random hexadecimal digits."""
    return f"{prefix}{secrets.token_hex(12)}"


async def stream(*, model_id: str, request: GenerationRequest) -> GenerationStream:
    """Returns once the engine has accepted; who reads it must close it.

    ApiError MODEL_NOT_FOUND; ModelNotLoaded, InvalidRequest, ContextLengthExceeded, EngineOverloaded, EngineDied,
    HostUnavailable.
    """
    try:
        return await engine().generate(model_id, request)
    except ModelNotLoaded:
        await find_card(model_id)
        raise


async def complete(*, model_id: str, request: GenerationRequest) -> Completion:
    """The whole text. Raises as `stream` does, and EngineDied when the generation breaks off. Leaving cancels it."""
    async with await stream(model_id=model_id, request=request) as outputs:
        pieces: list[str] = []
        async for output in outputs:
            pieces.append(output.text)
            if output.finish_reason is FinishReason.ERROR:
                raise EngineDied(output.error or "The generation failed; try again.")
            if output.finish_reason is not None and output.usage is not None:
                return Completion("".join(pieces), output.finish_reason, output.usage)
    raise EngineDied("The generation ended before it was whole; try again.")
