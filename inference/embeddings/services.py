"""Embedding texts."""

from inference.engine import EmbeddingRequest, EmbeddingResult
from inference.registry.engines import engine_for


async def embed(*, model_id: str, request: EmbeddingRequest) -> EmbeddingResult:
    """Vectors in the order of the texts. ApiError MODEL_NOT_FOUND; ModelNotLoaded, InvalidRequest: the model makes no
    embeddings, ContextLengthExceeded: a text is too long."""
    return await engine_for(model_id).embed(model_id, request)
