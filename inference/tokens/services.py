"""Use of a model's tokenizer. It counts as a concurrent request, but uses no tokens of a limit."""

from inference.engine import TokenizationRequest, TokenizationResult
from inference.registry.engines import model_engine
from inference.usage.services import admit
from shared.accounts.authentication import Principal


async def tokenize(*, caller: Principal, model_id: str, request: TokenizationRequest) -> TokenizationResult:
    """Return the tokens of a prompt, of a text to embed, or of a conversation.

    Raise ApiError MODEL_NOT_FOUND or RATE_LIMIT_EXCEEDED; ModelNotLoaded; InvalidRequest for a text that the model
    cannot read and for a model of another server; ContextLengthExceeded for a conversation that is far too long.
    """
    with await admit(caller=caller, model_id=model_id, tokens=0):
        return await model_engine.tokenize(model_id, request)


async def detokenize(*, caller: Principal, model_id: str, tokens: list[int]) -> str:
    """Return the text of token ids, without control tokens. Raise as `tokenize` does, and for an unknown id."""
    with await admit(caller=caller, model_id=model_id, tokens=0):
        return await model_engine.detokenize(model_id, tokens)
