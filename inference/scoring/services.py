"""Scores of texts by models, within the caller's limits."""

from msgspec.structs import replace

from inference.engine import ScoringRequest, ScoringResult, Usage
from inference.registry.engines import engine_for
from inference.usage.estimates import estimate_scoring_tokens
from inference.usage.services import admit
from shared.accounts.authentication import Principal


async def score_texts(*, caller: Principal, model_id: str, request: ScoringRequest) -> ScoringResult:
    """Return scores in the order of the texts or questions.

    Raise ApiError MODEL_NOT_FOUND or RATE_LIMIT_EXCEEDED; ModelNotLoaded; InvalidRequest if the model does not score
    such requests; ContextLengthExceeded for a text that is too long and is not cut.
    """
    with await admit(caller=caller, model_id=model_id, tokens=estimate_scoring_tokens(request)) as admission:
        result = await engine_for(model_id).score(model_id, replace(request, user=str(caller.user.pk)))
        admission.finish(Usage(result.prompt_tokens, 0, result.cached_tokens))
    return result
