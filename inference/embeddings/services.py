"""Embedding texts."""

from inference.engine import EmbeddingRequest, EmbeddingResult, ModelNotLoaded
from inference.registry.processes import engine
from inference.registry.services import find_card


async def embed(*, model_id: str, request: EmbeddingRequest) -> EmbeddingResult:
    """Vectors in the order of the texts. ApiError MODEL_NOT_FOUND; ModelNotLoaded, InvalidRequest: the model makes no
    embeddings, ContextLengthExceeded: a text is too long."""
    try:
        return await engine().embed(model_id, request)
    except ModelNotLoaded:
        await find_card(model_id)
        raise
