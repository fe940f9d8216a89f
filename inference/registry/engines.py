"""Which engine answers for a model: `await engine_for(model_id).generate(model_id, request)`."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from django.conf import settings

from inference.engine import (
    EmbeddingRequest,
    EmbeddingResult,
    EngineClient,
    GenerationRequest,
    GenerationStream,
    ModelNotLoaded,
)
from inference.registry.measuring import Engine, MeasuredEngine
from inference.registry.processes import engine, remote
from inference.registry.services import ensure_loaded, find_card

R = TypeVar("R")

# A model can be ended for another between its load and our request: then it is loaded once more.
TRIED_FOR_S = 60.0


def engine_for(model_id: str) -> Engine:
    """The engine to ask; whether it knows the model is found out by asking."""
    return MeasuredEngine(remote()) if model_id in settings.REMOTE_MODELS else _measured


class LocalEngine:
    """The models of this machine. The engine is asked first, the folders and the model host only when it says that the
    model is not loaded."""

    async def generate(self, model_id: str, request: GenerationRequest) -> GenerationStream:
        return await self._ask(model_id, lambda client: client.generate(model_id, request))

    async def embed(self, model_id: str, request: EmbeddingRequest) -> EmbeddingResult:
        return await self._ask(model_id, lambda client: client.embed(model_id, request))

    async def tokenize(self, model_id: str, text: str) -> list[int]:
        return await self._ask(model_id, lambda client: client.tokenize(model_id, text))

    async def detokenize(self, model_id: str, ids: list[int]) -> str:
        return await self._ask(model_id, lambda client: client.detokenize(model_id, ids))

    async def _ask(self, model_id: str, ask: Callable[[EngineClient], Awaitable[R]]) -> R:
        until = time.monotonic() + TRIED_FOR_S
        while True:
            try:
                return await ask(engine())
            except ModelNotLoaded:
                await find_card(model_id)
                if time.monotonic() > until:
                    raise
                await ensure_loaded(model_id=model_id)


_measured = MeasuredEngine(LocalEngine())
