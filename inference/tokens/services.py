"""Asking a model's tokenizer."""

from inference.registry.engines import engine_for


async def tokenize(*, model_id: str, prompt: str) -> list[int]:
    """The ids that `prompt` has as a prompt, or as a text to embed. ApiError MODEL_NOT_FOUND; ModelNotLoaded,
    InvalidRequest: the text has no ids in this model, or another server runs it."""
    return await engine_for(model_id).tokenize(model_id, prompt)


async def detokenize(*, model_id: str, tokens: list[int]) -> str:
    """The text of these ids, without control tokens. Raises as `tokenize`, InvalidRequest for an unknown id too."""
    return await engine_for(model_id).detokenize(model_id, tokens)
