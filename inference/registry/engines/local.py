"""The engine of this machine's models, which loads a model for a request."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from inference.engine import (
    EmbeddingRequest,
    EmbeddingResult,
    EngineClient,
    GenerationRequest,
    GenerationStream,
    InvalidRequest,
    ModelNotLoaded,
    ScoringRequest,
    ScoringResult,
    TokenizationRequest,
    TokenizationResult,
)
from inference.registry.catalog import REMOTE
from inference.registry.clients import engine
from inference.registry.model_status import list_models
from inference.registry.services import ensure_loaded, find_model

R = TypeVar("R")

# A model may be evicted between its load and the request: then it is loaded again.
RETRY_TIMEOUT_SECONDS = 60.0
# The capabilities of models, any of which a request needs.
CAPABLE = {
    "text-generation": {"text-generation"},
    "embeddings": {"embeddings"},
    "rerank": {"rerank", "embeddings"},
    "classification": {"classification"},
}


class LocalEngine:
    """The models of this machine. Folders and model host are read only if a model process does not answer."""

    async def generate(self, model_id: str, request: GenerationRequest) -> GenerationStream:
        return await self._run(model_id, lambda client: client.generate(model_id, request))

    async def embed(self, model_id: str, request: EmbeddingRequest) -> EmbeddingResult:
        return await self._run(model_id, lambda client: client.embed(model_id, request))

    async def score(self, model_id: str, request: ScoringRequest) -> ScoringResult:
        return await self._run(model_id, lambda client: client.score(model_id, request), is_scored=True)

    async def tokenize(self, model_id: str, request: TokenizationRequest) -> TokenizationResult:
        return await self._run(model_id, lambda client: client.tokenize(model_id, request))

    async def detokenize(self, model_id: str, ids: list[int]) -> str:
        return await self._run(model_id, lambda client: client.detokenize(model_id, ids))

    async def _run(self, model_id: str, call: Callable[[EngineClient], Awaitable[R]], *, is_scored: bool = False) -> R:
        retry_until = time.monotonic() + RETRY_TIMEOUT_SECONDS
        while True:
            try:
                return await call(engine())
            except ModelNotLoaded:
                await find_model(model_id)
                if time.monotonic() > retry_until:
                    raise
                await ensure_loaded(model_id=model_id)
            except InvalidRequest as error:
                if "capability" in error.details:
                    raise await wrong_model(error, is_scored=is_scored) from None
                raise


async def wrong_model(error: InvalidRequest, *, is_scored: bool = False) -> InvalidRequest:
    """Return the error of a request to a model of another kind, with the loaded models that could answer it.

    is_scored: whether scores are asked for, which models of other servers cannot give.
    """
    capable = CAPABLE[error.details["capability"]]
    able = [
        model.id
        for model in await list_models()
        if model.loaded and capable.intersection(model.capabilities) and not (is_scored and model.type == REMOTE)
    ]
    hint = f"Loaded models that could: {', '.join(able)}." if able else "No loaded model could: load one first."
    return InvalidRequest(f"{error.message} {hint}", field="model", loaded_models=able)
