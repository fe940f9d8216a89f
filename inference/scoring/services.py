"""Scores of texts by models, within the caller's limits."""

from collections.abc import Sequence

from msgspec.structs import replace

from inference.engine import ScoringRequest, ScoringResult, Usage
from inference.registry.engines import model_engine
from inference.usage.estimates import estimate_scoring_tokens
from inference.usage.services import admit
from shared.accounts.authentication import Principal


async def score_requests(
    *, caller: Principal, model_id: str, requests: Sequence[ScoringRequest]
) -> list[ScoringResult]:
    """Return the results of several requests, which count as one. Raise as `score_texts` does."""
    tokens = sum(map(estimate_scoring_tokens, requests))
    results: list[ScoringResult] = []
    with await admit(caller=caller, model_id=model_id, tokens=tokens) as admission:
        try:
            for index, request in enumerate(requests):
                numbered = replace(request, request_id=f"{request.request_id}-{index}", user=str(caller.user.pk))
                results.append(await model_engine.score(model_id, numbered))
        finally:  # what was scored before an error counts
            if results:
                prompt_tokens = sum(result.prompt_tokens for result in results)
                admission.finish(Usage(prompt_tokens, 0, sum(result.cached_tokens for result in results)))
    return results


async def score_texts(*, caller: Principal, model_id: str, request: ScoringRequest) -> ScoringResult:
    """Return scores in the order of the texts or questions.

    Raise ApiError MODEL_NOT_FOUND or RATE_LIMIT_EXCEEDED; ModelNotLoaded; InvalidRequest if the model does not score
    such requests; ContextLengthExceeded for a text that is too long and is not cut.
    """
    [result] = await score_requests(caller=caller, model_id=model_id, requests=[request])
    return result
