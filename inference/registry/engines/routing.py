"""The engine of all models: those of pools run on other servers, all others on this machine."""

from inference.engine import (
    EmbeddingRequest,
    EmbeddingResult,
    GenerationRequest,
    GenerationStream,
    InvalidRequest,
    ScoringRequest,
    ScoringResult,
    TokenizationRequest,
    TokenizationResult,
)
from inference.pools.cache import find_pool
from inference.pools.client import pool_client
from inference.registry.engines.instrumentation import InstrumentedEngine, ModelEngine
from inference.registry.engines.local import LocalEngine, wrong_model


class RoutingEngine:
    """An engine that sends each request to its model's pool, or to the engine of this machine if it has none.

    Where a remote model cannot do what is asked, the error names the loaded models that can.
    """

    def __init__(self) -> None:
        self._local = LocalEngine()

    async def generate(self, model_id: str, request: GenerationRequest) -> GenerationStream:
        if pool := await find_pool(model_id):
            return await pool_client().generate(pool, request)
        return await self._local.generate(model_id, request)

    async def embed(self, model_id: str, request: EmbeddingRequest) -> EmbeddingResult:
        if pool := await find_pool(model_id):
            return await pool_client().embed(pool, request)
        return await self._local.embed(model_id, request)

    async def score(self, model_id: str, request: ScoringRequest) -> ScoringResult:
        if not await find_pool(model_id):
            return await self._local.score(model_id, request)
        needed = "text-generation" if request.questions else "rerank" if request.queries else "classification"
        message = f"{model_id} runs on another server, which cannot score texts or answers. Use a model of this server."
        error = InvalidRequest(message, field="model", capability=needed)
        raise await wrong_model(error, is_scored=True)

    async def tokenize(self, model_id: str, request: TokenizationRequest) -> TokenizationResult:
        await _require_local(model_id)
        return await self._local.tokenize(model_id, request)

    async def detokenize(self, model_id: str, ids: list[int]) -> str:
        await _require_local(model_id)
        return await self._local.detokenize(model_id, ids)


async def _require_local(model_id: str) -> None:
    if await find_pool(model_id):
        raise InvalidRequest(f"{model_id} runs on another server, which cannot tokenize for clients.", field="model")


model_engine: ModelEngine = InstrumentedEngine(RoutingEngine())
