"""Asking a model's tokenizer. It takes no tokens of a limit, but one of the caller's places while it runs."""

from inference.registry.engines import engine_for
from inference.usage.services import admit
from shared.accounts.authentication import Principal


async def tokenize(*, caller: Principal, model_id: str, prompt: str) -> list[int]:
    """The ids that `prompt` has as a prompt, or as a text to embed. ApiError MODEL_NOT_FOUND, RATE_LIMIT_EXCEEDED;
    ModelNotLoaded, InvalidRequest: the text has no ids in this model, or another server runs it."""
    with await admit(caller=caller, model_id=model_id, tokens=0):
        return await engine_for(model_id).tokenize(model_id, prompt)


async def detokenize(*, caller: Principal, model_id: str, tokens: list[int]) -> str:
    """The text of these ids, without control tokens. Raises as `tokenize`, InvalidRequest for an unknown id too."""
    with await admit(caller=caller, model_id=model_id, tokens=0):
        return await engine_for(model_id).detokenize(model_id, tokens)
